"""Pegasus of transformers, 8 layers a side, 4 texts of 512 tokens (Zhang et al. 2019, arXiv:1912.08777).

Stresses: an encoder over long texts, and a decoder that attends to it.
"""

from typing import Any

import torch
from torch import nn
from transformers import PegasusConfig, PegasusModel

FAMILY = "encoder-decoder"
BATCH = 4
SOURCE = 512
TARGET = 64
WIDTH = 768
LAYERS = 8
HEADS = 12
VOCABULARY = 96103
SMALL = {"BATCH": 2, "SOURCE": 16, "TARGET": 8, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = PegasusConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=4 * WIDTH,
            decoder_ffn_dim=4 * WIDTH,
            init_std=WIDTH**-0.5,
            use_cache=False,
        )
        self.net = PegasusModel(config)

    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> Any:
        """Ids of text and summary (batch, tokens) to hidden states of both."""
        found = self.net(input_ids=input_ids, decoder_input_ids=decoder_input_ids)
        return found.last_hidden_state, found.encoder_last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids of text and summary."""
    return [torch.randint(VOCABULARY, (BATCH, SOURCE)), torch.randint(VOCABULARY, (BATCH, TARGET))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
