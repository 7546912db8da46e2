"""A Llama 3 of 12 layers of transformers reading 2 prompts of 1,024 tokens (Grattafiori et al. 2024).

Stresses: causal attention with grouped keys, rotary embedding, RMS norms and SwiGLU; it returns the cache too.
"""

from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

FAMILY = "prefill"
BATCH = 2
TOKENS = 1024
WIDTH = 1024
LAYERS = 12
HEADS = 16
KEY_HEADS = 4
HIDDEN = 2816
VOCABULARY = 32000
SMALL = {
    "BATCH": 2,
    "TOKENS": 24,
    "WIDTH": 64,
    "LAYERS": 2,
    "HEADS": 4,
    "KEY_HEADS": 2,
    "HIDDEN": 128,
    "VOCABULARY": 500,
}


class Model(nn.Module):
    """The network with random weights."""

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

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to the last logits (batch, 1, vocabulary), and keys and values of the first layer."""
        found = self.net(input_ids=input_ids, use_cache=True, logits_to_keep=1)
        first = found.past_key_values.layers[0]
        return found.logits, (first.keys, first.values)


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
