"""Four blocks of DiT-L/2 on 32 x 32 latent values, batch 8 (Peebles and Xie 2022, arXiv:2212.09748).

Stresses: layer norms that are scaled, shifted and gated by the condition, attention over 256 tokens, GELU.
"""

import torch
from torch import nn
from torch.nn import functional

FAMILY = "diffusion"
BATCH = 8
TOKENS = 256
WIDTH = 1024
HEADS = 16
LAYERS = 4
SMALL = {"BATCH": 2, "TOKENS": 16, "WIDTH": 32, "HEADS": 4, "LAYERS": 2}


def changed(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A layer norm without weights of its own, scaled and shifted by the condition."""
    return functional.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale) + shift


class Block(nn.Module):
    """Attention and perceptron, each behind an adaptive norm and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.condition = nn.Linear(WIDTH, 6 * WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        parts = self.condition(functional.silu(condition)).unsqueeze(1).chunk(6, dim=-1)
        q, k, v = self.qkv(changed(x, *parts[:2])).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + parts[2] * self.out(mixed)
        gated: torch.Tensor = x + parts[5] * self.perceptron(changed(x, *parts[3:5]))
        return gated


class Model(nn.Module):
    """The blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, tokens, width) and condition (batch, width) to tokens."""
        for block in self.blocks:
            x = block(x, condition)
        return x


def get_inputs() -> list[torch.Tensor]:
    """Tokens of noise, and the embedding of class and time."""
    return [torch.randn(BATCH, TOKENS, WIDTH), torch.randn(BATCH, WIDTH)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
