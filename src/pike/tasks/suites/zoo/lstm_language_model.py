"""A language model with `nn.LSTM` of two layers, 16 texts of 128 tokens (Zaremba et al. 2014, arXiv:1409.2329).

Stresses: 256 dependent steps between an embedding and a vocabulary of 10,000 words.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "recurrent"
BATCH = 16
TOKENS = 128
VOCABULARY = 10000
WIDTH = 650
SMALL = {"BATCH": 2, "TOKENS": 6, "VOCABULARY": 300, "WIDTH": 24}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.net = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.words = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Token ids (batch, tokens) to logits (batch, tokens, vocabulary) and the last state."""
        hidden, state = self.net(self.embedding(tokens))
        return self.words(hidden), state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
