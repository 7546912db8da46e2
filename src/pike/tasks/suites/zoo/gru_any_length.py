"""A bidirectional `nn.GRU` for sequences of any length (Cho et al. 2014, arXiv:1406.1078).

Stresses: steps whose number is known only when it is called.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "dynamic"
BATCH = 16
STEPS = 96
INPUTS = 64
HIDDEN = 128
SMALL = {"BATCH": 3, "STEPS": 8, "INPUTS": 16, "HIDDEN": 24}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.GRU(INPUTS, HIDDEN, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        """Sequences (batch, steps, inputs) to hidden states of every step and the last ones."""
        return self.net(x)


def draw(batch: int, steps: int) -> list[torch.Tensor]:
    """Sequences."""
    return [torch.randn(batch, steps, INPUTS)]


def get_inputs() -> list[torch.Tensor]:
    """The usual batch."""
    return draw(BATCH, STEPS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """One step, and odd numbers of sequences and steps."""
    return [draw(1, 1), draw(BATCH - 1, STEPS // 2 + 1), draw(1, STEPS + 1)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
