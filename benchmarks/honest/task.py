"""A gated residual layer: linear, SiLU with a learned scale, residual. KernelBench format.

Small enough to show the hand-over, large enough that fusion, half precision and graphs each pay.
"""

import torch
from torch import nn

ROWS, WIDTH = 4096, 1024


class Model(nn.Module):
    """y = silu(x W + b) * scale + x on [ROWS, WIDTH] float32."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[ROWS, width] to [ROWS, width]."""
        hidden = self.linear(x)
        return hidden * torch.sigmoid(hidden) * self.scale + x


def get_inputs():
    """One float32 tensor [ROWS, WIDTH] from N(0, 1)."""
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    """The width."""
    return [WIDTH]
