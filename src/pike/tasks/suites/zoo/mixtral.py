"""A Mixtral of 4 layers of transformers, 2 prompts of 512 tokens (Jiang et al. 2024, arXiv:2401.04088).

Stresses: 8 experts of which each token takes 2, as transformers loops over them.
"""

from typing import Any

import torch
from torch import nn
from transformers import MixtralConfig, MixtralModel

FAMILY = "mixture-of-experts"
BATCH = 2
TOKENS = 512
WIDTH = 1024
LAYERS = 4
HEADS = 16
KEY_HEADS = 4
HIDDEN = 1792
EXPERTS = 8
VOCABULARY = 32000
SMALL = {
    "BATCH": 2,
    "TOKENS": 24,
    "WIDTH": 64,
    "LAYERS": 2,
    "HEADS": 4,
    "KEY_HEADS": 2,
    "HIDDEN": 64,
    "EXPERTS": 4,
    "VOCABULARY": 500,
}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_HEADS,
            intermediate_size=HIDDEN,
            initializer_range=WIDTH**-0.5,
            num_local_experts=EXPERTS,
        )
        self.net = MixtralModel(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids=input_ids, use_cache=False).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
