"""The encoder of Whisper-base of transformers on 4 spectrograms of 30 s (Radford et al. 2022, arXiv:2212.04356).

Stresses: attention over 1,500 frames after two 1-d convolutions.
"""

from typing import Any

import torch
from torch import nn
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

FAMILY = "speech"
BATCH = 4
FRAMES = 1500
WIDTH = 512
LAYERS = 6
HEADS = 8
SMALL = {"BATCH": 2, "FRAMES": 50, "WIDTH": 64, "LAYERS": 2, "HEADS": 4}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = WhisperConfig(
            d_model=WIDTH,
            encoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            encoder_ffn_dim=4 * WIDTH,
            max_source_positions=FRAMES,
            init_std=WIDTH**-0.5,
        )
        self.net = WhisperEncoder(config)

    def forward(self, spectrogram: torch.Tensor) -> Any:
        """Spectrograms (batch, 80, 2 * frames) to hidden states (batch, frames, width)."""
        return self.net(spectrogram).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Noise in 80 mel bands."""
    return [torch.randn(BATCH, 80, 2 * FRAMES)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
