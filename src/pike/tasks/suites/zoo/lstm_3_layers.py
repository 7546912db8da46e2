"""`nn.LSTM` of three layers over 200 steps, batch 32 (Hochreiter and Schmidhuber 1997).

Stresses: 600 dependent steps, which cuDNN runs in one call.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "recurrent"
BATCH = 32
STEPS = 200
INPUTS = 128
HIDDEN = 256
SMALL = {"BATCH": 2, "STEPS": 6, "INPUTS": 16, "HIDDEN": 24}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(INPUTS, HIDDEN, num_layers=3, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        """Sequences (batch, steps, inputs) to hidden states of every step, and the last hidden and cell states."""
        return self.net(x)


def get_inputs() -> list[torch.Tensor]:
    """Sequences."""
    return [torch.randn(BATCH, STEPS, INPUTS)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
