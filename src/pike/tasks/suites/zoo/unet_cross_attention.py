"""The transformer of Stable Diffusion's U-Net at 64 x 64, batch 2 (Rombach et al. 2021, arXiv:2112.10752).

Stresses: attention over 4,096 positions, attention to 77 words, GEGLU, and changes of layout around it.
"""

import torch
from torch import nn
from torch.nn import functional

FAMILY = "diffusion"
BATCH = 2
IMAGE = 64
CHANNELS = 320
HEADS = 8
WORDS = 77
TEXT = 768
GROUPS = 32
SMALL = {"IMAGE": 6, "CHANNELS": 32, "HEADS": 4, "WORDS": 5, "TEXT": 24, "GROUPS": 8}


class Attention(nn.Module):
    """From positions to themselves or to a text."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.query = nn.Linear(CHANNELS, CHANNELS, bias=False)
        self.key = nn.Linear(context, CHANNELS, bias=False)
        self.value = nn.Linear(context, CHANNELS, bias=False)
        self.out = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """(batch, positions, channels) and (batch, words, context) to the first shape."""
        layers = ((self.query, x), (self.key, context), (self.value, context))
        q, k, v = (layer(given).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer, given in layers)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        result: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result


class Model(nn.Module):
    """Self-attention, attention to the text and a gated perceptron, between two projections."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, CHANNELS, eps=1e-6)
        self.enter, self.leave = nn.Conv2d(CHANNELS, CHANNELS, 1), nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(3))
        self.inner, self.outer = Attention(CHANNELS), Attention(TEXT)
        self.gated, self.down = nn.Linear(CHANNELS, 8 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Features (batch, channels, h, w) and text (batch, words, width) to features of the same shape."""
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        normed = self.norms[0](y)
        y = y + self.inner(normed, normed)
        y = y + self.outer(self.norms[1](y), text)
        values, gate = self.gated(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.down(values * functional.gelu(gate))
        changed: torch.Tensor = x + self.leave(y.transpose(1, 2).reshape(x.shape))
        return changed


def get_inputs() -> list[torch.Tensor]:
    """Features and embedded text."""
    return [torch.randn(BATCH, CHANNELS, IMAGE, IMAGE), torch.randn(BATCH, WORDS, TEXT)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
