"""One decoding step of OPT-125M of transformers, 8 prompts of 512 tokens cached (Zhang et al. 2022, arXiv:2205.01068).

Stresses: reading memory, and launching kernels; the cache is copied when a token is added, as `generate` does.
"""

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, OPTConfig, OPTForCausalLM

FAMILY = "decode"
BATCH = 8
PROMPT = 512
WIDTH = 768
LAYERS = 12
HEADS = 12
VOCABULARY = 50272
SMALL = {"BATCH": 2, "PROMPT": 24, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights, and what the prompts left in its cache."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        config = OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            word_embed_proj_dim=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            ffn_dim=4 * WIDTH,
            init_std=WIDTH**-0.5,
        )
        self.net = OPTForCausalLM(config)
        shape = (LAYERS, BATCH, HEADS, PROMPT, WIDTH // HEADS)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, 1) to logits (batch, 1, vocabulary) of the token after them."""
        cache = DynamicCache()
        for layer in range(LAYERS):
            cache.update(self.keys[layer], self.values[layer], layer)
        return self.net(input_ids=input_ids, past_key_values=cache, use_cache=True).logits


def get_inputs() -> list[torch.Tensor]:
    """The token after each prompt."""
    return [torch.randint(VOCABULARY, (BATCH, 1))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
