"""Causal self-attention with ReLU in place of softmax (Wortsman et al. 2023, arXiv:2309.08586), 16 x 1024 tokens.

Stresses: matrix products around scores (0.8 GB) that are written out, scaled, masked and rectified one operation at a
time.
Changed against the published task: the declared output projection is applied (19.3 GFLOP more, 109.5 to 128.8), so that
no weight is idle; scores are divided by the root of the number of tokens too, within the same multiplication, so that
outputs are of order one; gains in the projections. Shapes and parameters are the same.
"""

import math

import torch
from torch import nn

BATCH = 16
TOKENS = 1024
WIDTH = 768
HEADS = 12
MOST_TOKENS = 1024
SMALL = {"BATCH": 4, "TOKENS": 48, "WIDTH": 64, "HEADS": 4, "MOST_TOKENS": 96}


class Model(nn.Module):
    """Multi-head attention to the left, weights rectified and not normalised."""

    causal: torch.Tensor

    def __init__(self, width: int, heads: int, most_tokens: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        ones = torch.ones(most_tokens, most_tokens)
        self.register_buffer("causal", torch.tril(ones).view(1, 1, most_tokens, most_tokens))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.project(x).split(width, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1) * tokens))
        scores = scores.masked_fill(self.causal[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = torch.relu(scores) @ v
        y = y.transpose(1, 2).contiguous().view(batch, tokens, width)
        mixed: torch.Tensor = self.out(y)
        return mixed


def initialise(model: nn.Module) -> None:
    """Outputs of order one; small biases of the values, because weights that do not add up to one let them grow."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, 1.3 / math.sqrt(module.in_features))
            nn.init.normal_(module.bias, 0.0, 0.1 if name == "out" else 0.02)


def get_inputs() -> list[torch.Tensor]:
    """One batch of token embeddings."""
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [[torch.randn(batch, tokens, WIDTH)] for batch, tokens in ((1, MOST_TOKENS), (3, 77), (5, 1))]


def get_init_inputs() -> list[int]:
    """Width, heads and the longest sequence."""
    return [WIDTH, HEADS, MOST_TOKENS]


LEAST_BYTES = 4 * 2 * BATCH * TOKENS * WIDTH  # input and output; weights may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * TOKENS * (4 * WIDTH * WIDTH + TOKENS * WIDTH)  # both products to the left only
