"""A long chain of elementwise operations (task: chain) that is one multiplication and one addition."""

import torch
from torch import nn

ROWS, WIDTH, LINKS = 512, 1024, 12


class Model(nn.Module):
    """Scales and shifts again and again; each link reads and writes the whole tensor."""

    def __init__(self, width: int, links: int) -> None:
        super().__init__()
        self.scales = nn.Parameter(0.9 + 0.2 * torch.rand(links, width))
        self.shifts = nn.Parameter(torch.randn(links, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, width) to the same shape."""
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            x = x * scale
            x = x + shift
        return x


def get_inputs() -> list[torch.Tensor]:
    """One float32 tensor."""
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs() -> list[int]:
    """Width, links."""
    return [WIDTH, LINKS]
