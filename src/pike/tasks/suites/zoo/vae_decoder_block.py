"""The middle and first level of Stable Diffusion's VAE decoder, batch 1 (Rombach et al. 2021, arXiv:2112.10752).

Stresses: 3 x 3 convolutions of 512 channels with group norms and SiLU, one head of attention, upsampling.
"""

import torch
from torch import nn
from torch.nn import functional

FAMILY = "diffusion"
BATCH = 1
IMAGE = 64
CHANNELS = 512
GROUPS = 32
SMALL = {"BATCH": 2, "IMAGE": 6, "CHANNELS": 32, "GROUPS": 8}


class ResBlock(nn.Module):
    """Two convolutions behind group norms."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [nn.GroupNorm(GROUPS, CHANNELS, eps=1e-6), nn.SiLU(), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to the same shape."""
        mixed: torch.Tensor = x + self.layers(x)
        return mixed


class Attention(nn.Module):
    """One head over all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, CHANNELS, eps=1e-6)
        self.qkv, self.out = nn.Conv2d(CHANNELS, 3 * CHANNELS, 1), nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to the same shape."""
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2)
        changed: torch.Tensor = x + self.out(mixed.reshape(x.shape))
        return changed


class Model(nn.Module):
    """From latent values to features at twice their size."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, CHANNELS, 3, padding=1)
        self.middle = nn.Sequential(ResBlock(), Attention(), ResBlock())
        self.level = nn.Sequential(ResBlock(), ResBlock(), ResBlock())
        self.up = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        """Latent values (batch, 4, h, w) to features (batch, channels, 2 h, 2 w)."""
        y = self.level(self.middle(self.enter(latent)))
        wide: torch.Tensor = self.up(functional.interpolate(y, scale_factor=2.0, mode="nearest"))
        return wide


def get_inputs() -> list[torch.Tensor]:
    """Latent values."""
    return [torch.randn(BATCH, 4, IMAGE, IMAGE)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
