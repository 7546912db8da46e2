"""Multi-head self-attention with a learned relative position bias (Raffel et al. 2019), 2 sequences of 512 tokens.

Stresses: an additive bias inside the softmax, a score matrix larger than the caches, three projections of one
input. One call costs 2.7 GFLOP.
"""

import math

import torch
from torch import nn

BATCH = 2
TOKENS = 512
WIDTH = 512
HEADS = 8
SMALL = {"TOKENS": 512, "WIDTH": 32, "HEADS": 4}


class Model(nn.Module):
    """Layer norm, attention with bias, projection, residual addition."""

    distance: torch.Tensor

    def __init__(self, width: int = WIDTH, heads: int = HEADS, tokens: int = TOKENS) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, 2 * tokens - 1))
        positions = torch.arange(tokens)
        self.register_buffer("distance", positions[:, None] - positions[None, :] + tokens - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        y = self.norm(x)
        q, k, v = (
            layer(y).view(batch, tokens, self.heads, -1).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(width // self.heads)
        scores = scores + self.bias[:, self.distance]
        y = torch.matmul(torch.softmax(scores, dim=-1), v)
        branch: torch.Tensor = self.out(y.permute(0, 2, 1, 3).reshape(batch, tokens, width))
        return x + branch


def initialise(model: Model) -> None:
    """Weights that keep the branch of order one and make attention peaked."""
    for linear in (model.query, model.key, model.value, model.out):
        nn.init.normal_(linear.weight, 0.0, math.sqrt(2.0 / linear.in_features))
    nn.init.normal_(model.out.bias, 0.0, 0.1)
    nn.init.uniform_(model.norm.weight, 0.5, 1.5)
    nn.init.normal_(model.norm.bias, 0.0, 0.2)


def get_inputs() -> list[torch.Tensor]:
    """One batch of token embeddings."""
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_init_inputs() -> list[int]:
    """Width, heads, tokens."""
    return [WIDTH, HEADS, TOKENS]
