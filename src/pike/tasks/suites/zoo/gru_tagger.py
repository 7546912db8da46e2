"""A tagger with a bidirectional `nn.GRU` of two layers, 32 sentences of 100 words (Cho et al. 2014, arXiv:1406.1078).

Stresses: an embedding, 400 dependent steps in two directions, and a small classifier.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "recurrent"
BATCH = 32
TOKENS = 100
VOCABULARY = 20000
WIDTH = 256
TAGS = 17
SMALL = {"BATCH": 2, "TOKENS": 6, "VOCABULARY": 300, "WIDTH": 16}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.net = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * WIDTH, TAGS)

    def forward(self, words: torch.Tensor) -> Any:
        """Word ids (batch, words) to logits (batch, words, tags)."""
        return self.tags(self.net(self.embedding(words))[0])


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
