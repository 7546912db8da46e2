"""Causal self-attention of GPT-2 (Radford et al. 2019) as minGPT writes it out, 128 sequences of 512 tokens, width 768.

Stresses: matrix products, and a masked softmax whose scores (1.1 GB) are written out several times.
Changed against the published task: gains in the projections. There, scores are nearly equal, late tokens average over
hundreds of others, and outputs are so small (0.05) that a fifth of them pass as zeros. Shapes, layers and arithmetic
are the same.
"""

import math

import torch
from torch import nn

BATCH = 128
TOKENS = 512
WIDTH = 768
HEADS = 8
MOST_TOKENS = 1024
SMALL = {"BATCH": 4, "TOKENS": 48, "WIDTH": 64, "HEADS": 4, "MOST_TOKENS": 96}
DROPOUT = 0.0
LOGITS = 3.0
"""Standard deviation of the scores before the softmax, so that every token attends to few others."""


class Model(nn.Module):
    """Multi-head attention to the left, with an explicit mask and softmax."""

    causal: torch.Tensor

    def __init__(
        self, width: int, heads: int, attention_dropout: float, residual_dropout: float, most_tokens: int
    ) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.attention_dropout = nn.Dropout(attention_dropout)
        self.residual_dropout = nn.Dropout(residual_dropout)
        ones = torch.ones(most_tokens, most_tokens)
        self.register_buffer("causal", torch.tril(ones).view(1, 1, most_tokens, most_tokens))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.project(x).split(width, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.causal[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = self.attention_dropout(torch.softmax(scores, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(batch, tokens, width)
        mixed: torch.Tensor = self.residual_dropout(self.out(y))
        return mixed


def initialise(model: nn.Module) -> None:
    """Peaked attention, and outputs of order one."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            width = module.in_features
            nn.init.normal_(module.weight, 0.0, 1.3 / math.sqrt(width))
            nn.init.normal_(module.bias, 0.0, 0.1)
            if name.endswith("project"):
                nn.init.normal_(module.weight[: 2 * width], 0.0, math.sqrt(LOGITS / width))


def get_inputs() -> list[torch.Tensor]:
    """One batch of token embeddings."""
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [[torch.randn(batch, tokens, WIDTH)] for batch, tokens in ((1, MOST_TOKENS), (3, 77), (5, 1))]


def get_init_inputs() -> list[object]:
    """Width, heads, dropout of weights and of outputs, and the longest sequence."""
    return [WIDTH, HEADS, DROPOUT, DROPOUT, MOST_TOKENS]


LEAST_BYTES = 4 * 2 * BATCH * TOKENS * WIDTH  # input and output; weights may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * TOKENS * (4 * WIDTH * WIDTH + TOKENS * WIDTH)  # both products to the left only
