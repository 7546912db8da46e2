# The loop writes into one tensor instead of stacking.
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for head in range(x.shape[1]):
            out[:, head] = x[:, head] @ self.weight[head]
        return out
