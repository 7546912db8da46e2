"""A Mamba of 8 layers of transformers, 2 texts of 256 tokens (Gu and Dao 2023, arXiv:2312.00752).

Stresses: a selective scan, token by token where its own kernels are not installed, and short 1-d convolutions.
"""

from typing import Any

import torch
from torch import nn
from transformers import MambaConfig, MambaModel

FAMILY = "state-space"
BATCH = 2
TOKENS = 256
WIDTH = 768
LAYERS = 8
VOCABULARY = 50280
SPREAD = 0.04
"""Of the weights: layers count for much more than rounding does. Narrow layers need more for it."""
SMALL = {"BATCH": 2, "TOKENS": 12, "WIDTH": 32, "LAYERS": 2, "VOCABULARY": 500, "SPREAD": 1.0}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = MambaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            use_cache=False,
            initializer_range=SPREAD,
        )
        self.net = MambaModel(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
