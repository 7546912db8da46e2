"""DeBERTa-v3-base of transformers, 8 sentences of 256 tokens (He et al. 2021, arXiv:2111.09543).

Stresses: attention whose scores are gathered from products with relative positions.
"""

from typing import Any

import torch
from torch import nn
from transformers import DebertaV2Config, DebertaV2Model

FAMILY = "text-encoder"
BATCH = 8
TOKENS = 256
WIDTH = 768
LAYERS = 12
HEADS = 12
VOCABULARY = 32000
SMALL = {"BATCH": 2, "TOKENS": 24, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = DebertaV2Config(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            relative_attention=True,
            position_buckets=256,
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
            initializer_range=WIDTH**-0.5,
        )
        self.net = DebertaV2Model(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids=input_ids).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
