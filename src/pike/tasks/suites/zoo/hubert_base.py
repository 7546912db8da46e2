"""HuBERT-base of transformers on 4 recordings of 5 s (Hsu et al. 2021, arXiv:2106.07447).

Stresses: long strided 1-d convolutions, a grouped positional convolution with normed weights, attention.
"""

from typing import Any

import torch
from torch import nn
from transformers import HubertConfig, HubertModel

FAMILY = "speech"
BATCH = 4
SAMPLES = 80000
CHANNELS = 512
WIDTH = 768
LAYERS = 12
HEADS = 12
SMALL = {"BATCH": 2, "SAMPLES": 4000, "CHANNELS": 32, "WIDTH": 64, "LAYERS": 2, "HEADS": 4}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = HubertConfig(
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            conv_dim=[CHANNELS] * 7,
            initializer_range=WIDTH**-0.5,
        )
        self.net = HubertModel(config)

    def forward(self, samples: torch.Tensor) -> Any:
        """Samples (batch, samples) to hidden states (batch, frames, width)."""
        return self.net(samples).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Noise at 16 kHz."""
    return [torch.randn(BATCH, SAMPLES)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
