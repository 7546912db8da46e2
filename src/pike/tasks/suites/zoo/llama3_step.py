"""One decoding step of a Llama 3 of 12 layers of transformers, 4 prompts of 1,024 tokens (Grattafiori et al. 2024).

Stresses: reading memory and launching kernels; groups of heads share the keys in the cache.
"""

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

FAMILY = "decode"
BATCH = 4
PROMPT = 1024
WIDTH = 1024
LAYERS = 12
HEADS = 16
KEY_HEADS = 4
HIDDEN = 2816
VOCABULARY = 32000
SMALL = {
    "BATCH": 2,
    "PROMPT": 24,
    "WIDTH": 64,
    "LAYERS": 2,
    "HEADS": 4,
    "KEY_HEADS": 2,
    "HIDDEN": 128,
    "VOCABULARY": 500,
}


class Model(nn.Module):
    """The network with random weights, and what the prompts left in its cache."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_HEADS,
            intermediate_size=HIDDEN,
            initializer_range=WIDTH**-0.5,
        )
        self.net = LlamaForCausalLM(config)
        shape = (LAYERS, BATCH, KEY_HEADS, PROMPT, WIDTH // HEADS)
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
