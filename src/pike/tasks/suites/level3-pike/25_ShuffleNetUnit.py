"""A ShuffleNet unit with stride 1 on ten maps of 240 x 224 x 224 (Zhang et al. 2017, arXiv:1707.01083).

Stresses: grouped 1 x 1 convolutions, a channel shuffle, a depthwise 3 x 3 convolution and a projected shortcut, on maps
of 0.2 to 1 GB: each intermediate map that is written and read again costs as much as the arithmetic. Four fifths of the
operations are the shortcut's.
Changed against the published task: He weights with the fan-in of each group, and batch-norm statistics measured on a
calibration map. There, the main branch adds 0.05 to a shortcut of 0.6. Shapes, layers and arithmetic are the same, and
so is the cost.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
CHANNELS_IN = 240
CHANNELS = 480
GROUPS = 3
SMALL = {"BATCH": 2, "IMAGE": 32, "CHANNELS_IN": 24, "CHANNELS": 48}


class Model(nn.Module):
    """Narrow, shuffle and widen in groups, beside a shortcut that is projected where the width changes."""

    def __init__(self, channels_in: int, channels: int, groups: int) -> None:
        super().__init__()
        narrow = channels // 4
        self.groups = groups
        self.reduce = nn.Conv2d(channels_in, narrow, 1, groups=groups, bias=False)
        self.reduce_norm = nn.BatchNorm2d(narrow)
        self.depthwise = nn.Conv2d(narrow, narrow, 3, 1, 1, groups=narrow, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(narrow)
        self.expand = nn.Conv2d(narrow, channels, 1, groups=groups, bias=False)
        self.expand_norm = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if channels_in != channels:
            projection = nn.Conv2d(channels_in, channels, 1, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h, w)."""
        y = torch.relu(self.reduce_norm(self.reduce(x)))
        y = self.depthwise_norm(self.depthwise(y))
        y = y.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        y = torch.relu(self.expand_norm(self.expand(y)))
        residual: torch.Tensor = self.shortcut(x)
        return y + residual


def initialise(model: nn.Module) -> None:
    """He weights, batch-norm scales that differ per channel, statistics of one pass over a calibration map."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)
            module.momentum = None  # the statistics become those of the pass, not a moving average
    model.train()(draw_maps(1))


def draw_maps(count: int) -> torch.Tensor:
    """Standard normal feature maps."""
    return torch.randn(count, CHANNELS_IN, IMAGE, IMAGE)


def get_inputs() -> list[torch.Tensor]:
    """One batch of feature maps."""
    return [draw_maps(BATCH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of maps may vary."""
    return [[draw_maps(count)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels in and out, groups of the 1 x 1 convolutions."""
    return [CHANNELS_IN, CHANNELS, GROUPS]


PIXELS = BATCH * IMAGE * IMAGE
GROUPED = CHANNELS // 4 * (CHANNELS_IN + CHANNELS) // GROUPS
LEAST_BYTES = 4 * PIXELS * (CHANNELS_IN + CHANNELS)  # maps in and out
LEAST_OPERATIONS = 2 * PIXELS * (GROUPED + CHANNELS_IN * CHANNELS)  # 1 x 1 convolutions
