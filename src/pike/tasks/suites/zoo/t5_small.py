"""T5-small of transformers, 8 sources of 128 tokens and targets of 64 (Raffel et al. 2019, arXiv:1910.10683).

Stresses: relative position biases, attention from decoder to encoder, and RMS norms.
"""

from typing import Any

import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

FAMILY = "encoder-decoder"
BATCH = 8
SOURCE = 128
TARGET = 64
WIDTH = 512
LAYERS = 6
HEADS = 8
VOCABULARY = 32128
SMALL = {"BATCH": 2, "SOURCE": 16, "TARGET": 8, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = T5Config(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            d_kv=WIDTH // HEADS,
            d_ff=4 * WIDTH,
            num_layers=LAYERS,
            num_heads=HEADS,
            use_cache=False,
        )
        self.net = T5ForConditionalGeneration(config)

    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> Any:
        """Ids of source and target (batch, tokens) to a `ModelOutput` with the target's logits."""
        return self.net(input_ids=input_ids, decoder_input_ids=decoder_input_ids)


def get_inputs() -> dict[str, torch.Tensor]:
    """Token ids of source and target."""
    return {
        "input_ids": torch.randint(VOCABULARY, (BATCH, SOURCE)),
        "decoder_input_ids": torch.randint(VOCABULARY, (BATCH, TARGET)),
    }


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
