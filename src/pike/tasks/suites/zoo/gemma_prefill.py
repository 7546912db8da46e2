"""A Gemma 2 of 8 layers of transformers reading 2 prompts of 1,024 tokens (Riviere et al. 2024, arXiv:2408.00118).

Stresses: attention with soft caps on its scores, every second layer local; GeGLU and four norms in a layer.
"""

from typing import Any

import torch
from torch import nn
from transformers import Gemma2Config, Gemma2ForCausalLM

FAMILY = "prefill"
BATCH = 2
TOKENS = 1024
WIDTH = 1024
LAYERS = 8
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
        config = Gemma2Config(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_HEADS,
            intermediate_size=HIDDEN,
            initializer_range=WIDTH**-0.5,
            head_dim=WIDTH // HEADS,
            sliding_window=TOKENS // 2,
        )
        self.net = Gemma2ForCausalLM(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to the last token's logits (batch, 1, vocabulary)."""
        return self.net(input_ids=input_ids, use_cache=False, logits_to_keep=1).logits


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
