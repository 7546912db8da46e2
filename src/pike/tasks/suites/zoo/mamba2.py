"""A Mamba-2 of 8 layers of transformers, 2 texts of 512 tokens (Dao and Gu 2024, arXiv:2405.21060).

Stresses: a scan in chunks, as products of segments with cumulative decays.
"""

from typing import Any

import torch
from torch import nn
from transformers import Mamba2Config, Mamba2Model

FAMILY = "state-space"
BATCH = 2
TOKENS = 512
WIDTH = 768
LAYERS = 8
HEADS = 24
STATE = 128
CHUNK = 256
VOCABULARY = 50280
SPREAD = 0.04
"""Of the weights: layers count for much more than rounding does. Narrow layers need more for it."""
SMALL = {
    "BATCH": 2,
    "TOKENS": 24,
    "WIDTH": 32,
    "LAYERS": 2,
    "HEADS": 4,
    "STATE": 16,
    "CHUNK": 8,
    "VOCABULARY": 500,
    "SPREAD": 1.0,
}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = Mamba2Config(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_heads=HEADS,
            head_dim=2 * WIDTH // HEADS,
            n_groups=1,
            state_size=STATE,
            chunk_size=CHUNK,
            use_cache=False,
            initializer_range=SPREAD,
        )
        self.net = Mamba2Model(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
