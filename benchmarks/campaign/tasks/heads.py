"""Many small matrix products in a Python loop (task: heads) that are one batched product."""

import torch
from torch import nn

ROWS, HEADS, WIDTH = 64, 64, 32


class Model(nn.Module):
    """Each head has its own square matrix."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, heads, width) to the same shape."""
        return torch.stack([x[:, head] @ self.weight[head] for head in range(x.shape[1])], dim=1)


def get_inputs() -> list[torch.Tensor]:
    """One float32 tensor."""
    return [torch.randn(ROWS, HEADS, WIDTH)]


def get_init_inputs() -> list[int]:
    """Heads, width."""
    return [HEADS, WIDTH]
