"""A BERT of 6 layers of transformers for batches and lengths that vary (Devlin et al. 2018, arXiv:1810.04805).

Stresses: one program for every number of sentences and words.
"""

from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel

FAMILY = "dynamic"
BATCH = 8
TOKENS = 128
WIDTH = 512
LAYERS = 6
HEADS = 8
VOCABULARY = 30522
SMALL = {"BATCH": 3, "TOKENS": 20, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            initializer_range=WIDTH**-0.5,
        )
        self.net = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids=input_ids).last_hidden_state


def draw(batch: int, tokens: int) -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (batch, tokens))]


def get_inputs() -> list[torch.Tensor]:
    """The usual batch."""
    return draw(BATCH, TOKENS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """One word, and odd numbers of sentences and words."""
    return [draw(1, 1), draw(BATCH - 1, TOKENS // 2 + 1), draw(1, TOKENS + 3)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
