# One cumulative sum.
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(steps))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * self.gain, dim=1)
