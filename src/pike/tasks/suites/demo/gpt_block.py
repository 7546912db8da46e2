"""One GPT transformer block with attention written out (Radford et al. 2019), 1024 tokens, width 192.

Stresses: matrix products, a causal softmax that materialises the score matrix, layer norms and the tanh form of GELU
written as separate operations, as small GPT trainings write it. One call costs 1.7 GFLOP.
"""

import math

import torch
from torch import nn

BATCH = 1
TOKENS = 1024
WIDTH = 192
HEADS = 6
SMALL = {"TOKENS": 512, "WIDTH": 32, "HEADS": 4}


class CausalAttention(nn.Module):
    """Multi-head attention to the left, with an explicit mask and softmax."""

    causal: torch.Tensor

    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.register_buffer("causal", torch.tril(torch.ones(tokens, tokens)).view(1, 1, tokens, tokens))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q = self.query(x).view(shape).transpose(1, 2)
        k = self.key(x).view(shape).transpose(1, 2)
        v = self.value(x).view(shape).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.causal[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        mixed: torch.Tensor = self.out(y.transpose(1, 2).contiguous().view(batch, tokens, width))
        return mixed


class TanhGelu(nn.Module):
    """The tanh form of GELU (Hendrycks and Gimpel 2016)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Elementwise."""
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Model(nn.Module):
    """Attention and a four times wider perceptron, each behind a layer norm and added to the stream."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS, tokens: int = TOKENS) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, tokens)
        self.norm2 = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), TanhGelu(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        branch: torch.Tensor = self.perceptron(self.norm2(x))
        return x + branch


def initialise(model: nn.Module) -> None:
    """Weights that keep every branch of order one and make attention peaked, from the global generator."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.in_features))
            nn.init.normal_(module.bias, 0.0, 0.1)
        elif isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)


def get_inputs() -> list[torch.Tensor]:
    """One batch of token embeddings."""
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_init_inputs() -> list[int]:
    """Width, heads, tokens."""
    return [WIDTH, HEADS, TOKENS]
