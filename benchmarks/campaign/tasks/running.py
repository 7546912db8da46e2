"""Running sums in a Python loop (task: running) that are one cumulative sum."""

import torch
from torch import nn

ROWS, STEPS = 256, 200


class Model(nn.Module):
    """A discounted running sum is kept simple: no discount, one learned gain for each step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(steps))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, steps) to the same shape."""
        total = torch.zeros_like(x[:, 0])
        sums = []
        for step in range(x.shape[1]):
            total = total + x[:, step] * self.gain[step]
            sums.append(total)
        return torch.stack(sums, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """One float32 tensor."""
    return [torch.randn(ROWS, STEPS)]


def get_init_inputs() -> list[int]:
    """Steps."""
    return [STEPS]
