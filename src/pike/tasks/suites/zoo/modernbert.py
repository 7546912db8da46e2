"""ModernBERT-base of transformers, 8 texts of 512 tokens (Warner et al. 2024, arXiv:2412.13663).

Stresses: attention that is local in two layers of three, rotary embedding and gated perceptrons.
"""

from typing import Any

import torch
from torch import nn
from transformers import ModernBertConfig, ModernBertModel

FAMILY = "text-encoder"
BATCH = 8
TOKENS = 512
WIDTH = 768
LAYERS = 22
HEADS = 12
VOCABULARY = 50368
SMALL = {"BATCH": 2, "TOKENS": 24, "WIDTH": 64, "LAYERS": 3, "HEADS": 4, "VOCABULARY": 500}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = ModernBertConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=3 * WIDTH // 2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            initializer_range=WIDTH**-0.5,
        )
        self.net = ModernBertModel(config)

    def forward(self, input_ids: torch.Tensor) -> Any:
        """Ids (batch, tokens) to hidden states (batch, tokens, width)."""
        return self.net(input_ids=input_ids).last_hidden_state


def get_inputs() -> list[torch.Tensor]:
    """Token ids."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
