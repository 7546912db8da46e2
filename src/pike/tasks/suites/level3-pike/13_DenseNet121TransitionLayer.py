"""Transition of a dense network, 32 to 64 channels, on ten maps of 224 x 224 (Huang et al. 2016, arXiv:1608.06993).

Stresses: memory; batch norm, ReLU, a 1 x 1 convolution and pooling each read and write 64 or 128 MB. Pooling may come
before the convolution.
Changed against the published task: He weights, and random scales, offsets and statistics of the batch norm, which does
nothing there. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
CHANNELS_IN = 32
CHANNELS = 64
SMALL = {"BATCH": 2, "IMAGE": 64}


class Model(nn.Module):
    """Batch norm, ReLU, 1 x 1 convolution, average pooling."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels_in)
        self.conv = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / 2, w / 2)."""
        y: torch.Tensor = self.pool(self.conv(torch.relu_(self.bn(x))))
        return y


def initialise(model: nn.Module) -> None:
    """He weights, a batch norm that differs per channel."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.in_channels))
        elif isinstance(module, nn.BatchNorm2d):
            for scale in (module.weight, module.get_buffer("running_var")):
                nn.init.uniform_(scale, 0.5, 1.5)
            for offset in (module.bias, module.get_buffer("running_mean")):
                nn.init.normal_(offset, 0.0, 0.2)


def get_inputs() -> list[torch.Tensor]:
    """One batch of feature maps."""
    return [torch.randn(BATCH, CHANNELS_IN, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of maps may vary."""
    return [[torch.randn(count, CHANNELS_IN, IMAGE, IMAGE)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels of the input and of the output."""
    return [CHANNELS_IN, CHANNELS]


POOLED = BATCH * (IMAGE // 2) ** 2
LEAST_BYTES = 4 * POOLED * (4 * CHANNELS_IN + CHANNELS)
LEAST_OPERATIONS = 2 * POOLED * CHANNELS_IN * CHANNELS  # pooled first
