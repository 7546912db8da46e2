"""A level of Stable Diffusion's U-Net, down and up again, batch 4 (Rombach et al. 2021, arXiv:2112.10752).

Stresses: group norms with SiLU before 3 x 3 convolutions, a time embedding, and skips that are concatenated.
"""

import torch
from torch import nn
from torch.nn import functional

FAMILY = "diffusion"
BATCH = 4
IMAGE = 64
CHANNELS = 320
TIME = 1280
GROUPS = 32
SMALL = {"BATCH": 2, "IMAGE": 8, "CHANNELS": 32, "TIME": 32, "GROUPS": 8}


class ResBlock(nn.Module):
    """Two convolutions behind group norms, with the time step added between them."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, channels_in), nn.GroupNorm(GROUPS, channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(TIME, channels)
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h, w)."""
        y = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(time))[:, :, None, None]
        mixed: torch.Tensor = self.skip(x) + self.conv2(functional.silu(self.norm2(y)))
        return mixed


class Model(nn.Module):
    """Two blocks down, one at half size, two blocks up."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ResBlock(CHANNELS, CHANNELS)
        self.down = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)
        self.middle = ResBlock(CHANNELS, 2 * CHANNELS)
        self.up = nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, 3, padding=1)
        self.last = ResBlock(3 * CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Features (batch, channels, h, w) and time embedding (batch, time) to features of the same shape."""
        kept = self.first(x, time)
        y = self.middle(self.down(kept), time)
        y = self.up(functional.interpolate(y, scale_factor=2.0, mode="nearest"))
        result: torch.Tensor = self.last(torch.cat((y, kept), 1), time)
        return result


def get_inputs() -> list[torch.Tensor]:
    """Features and time embeddings."""
    return [torch.randn(BATCH, CHANNELS, IMAGE, IMAGE), torch.randn(BATCH, TIME)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
