"""Dense block of six layers without bottlenecks on ten maps of 32 x 224 x 224 (Huang et al. 2016, arXiv:1608.06993).

Stresses: 3 x 3 convolutions at full resolution, and memory: before each layer all earlier maps are concatenated anew.
The first 32 channels of the answer are the input.
Changed against the published task: He weights, and random scales, offsets and statistics of the batch norms, which do
nothing there. Shapes, layers and arithmetic are the same; dropout with probability 0 is left out.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
LAYERS = 6
CHANNELS = 32
GROWTH = 32
SMALL = {"BATCH": 2, "IMAGE": 32, "CHANNELS": 16, "GROWTH": 8}


class DenseLayer(nn.Module):
    """Batch norm, ReLU and a 3 x 3 convolution."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to (batch, growth, h, w)."""
        y: torch.Tensor = self.conv(torch.relu_(self.bn(x)))
        return y


class Model(nn.Module):
    """Layers of which each sees the input and the maps of all layers before it."""

    def __init__(self, layers: int, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(channels + growth * layer, growth) for layer in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to (batch, channels + layers * growth, h, w)."""
        maps = [x]
        for layer in self.layers:
            maps.append(layer(x))
            x = torch.cat(maps, 1)
        return x


def initialise(model: nn.Module) -> None:
    """He weights, batch norms that differ per channel."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
        elif isinstance(module, nn.BatchNorm2d):
            for scale in (module.weight, module.get_buffer("running_var")):
                nn.init.uniform_(scale, 0.5, 1.5)
            for offset in (module.bias, module.get_buffer("running_mean")):
                nn.init.normal_(offset, 0.0, 0.2)


def get_inputs() -> list[torch.Tensor]:
    """One batch of feature maps."""
    return [torch.randn(BATCH, CHANNELS, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of maps may vary."""
    return [[torch.randn(count, CHANNELS, IMAGE, IMAGE)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """The number of layers, the channels of the input and those that each layer adds."""
    return [LAYERS, CHANNELS, GROWTH]


PLACES = BATCH * IMAGE * IMAGE
LEAST_BYTES = 4 * PLACES * (2 * CHANNELS + LAYERS * GROWTH)
# Convolutions of 3 x 3 need a fifth of their multiplications (Winograd).
LEAST_OPERATIONS = 2 * PLACES * GROWTH * sum(CHANNELS + GROWTH * layer for layer in range(LAYERS)) * 9 // 5
