"""BERT-base of transformers, 8 padded sentences of 256 tokens (Devlin et al. 2018, arXiv:1810.04805).

Stresses: attention with a padding mask and layer norms; it takes keywords and returns a `ModelOutput`.
"""

from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel

FAMILY = "text-encoder"
BATCH = 8
TOKENS = 256
WIDTH = 768
LAYERS = 12
HEADS = 12
VOCABULARY = 30522
SMALL = {"BATCH": 2, "TOKENS": 24, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


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
        self.net = BertModel(config)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Ids and mask (batch, tokens) to hidden states and a pooled vector."""
        return self.net(input_ids=input_ids, attention_mask=attention_mask)


def get_inputs() -> dict[str, torch.Tensor]:
    """Token ids of sentences of different lengths, padded on the right."""
    lengths = torch.randint(TOKENS // 2, TOKENS + 1, (BATCH, 1))
    return {
        "input_ids": torch.randint(VOCABULARY, (BATCH, TOKENS)),
        "attention_mask": (torch.arange(TOKENS) < lengths).long(),
    }


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
