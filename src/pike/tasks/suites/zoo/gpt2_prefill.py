"""GPT-2 of transformers reading 4 prompts of 512 tokens (Radford et al. 2019).

Stresses: causal attention and a vocabulary of 50,257 words at every position.
"""

from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

FAMILY = "prefill"
BATCH = 4
TOKENS = 512
WIDTH = 768
LAYERS = 12
HEADS = 12
VOCABULARY = 50257
SMALL = {"BATCH": 2, "TOKENS": 24, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
            initializer_range=WIDTH**-0.5,
        )
        self.net = GPT2LMHeadModel(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to a `ModelOutput` with logits (batch, tokens, vocabulary)."""
        return self.net(input_ids=input_ids)


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
