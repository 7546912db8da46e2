"""Basic block of a residual network with a projected shortcut, 3 to 64 channels, on ten images of 224 x 224 (He et al.
2015, arXiv:1512.03385).

Stresses: 3 x 3 convolutions at full resolution, and reading and writing 128 MB for each batch norm, addition and ReLU.
Changed against the published task: He weights and random scales, offsets and statistics of the batch norms, which do
nothing there. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
CHANNELS = 64
STRIDE = 1
SMALL = {"BATCH": 2, "IMAGE": 32, "CHANNELS": 16}


class Model(nn.Module):
    """Two 3 x 3 convolutions and a 1 x 1 convolution beside them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        projection = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
        self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        y = torch.relu_(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return torch.relu_(y)


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
    """One batch of images."""
    return [torch.randn(BATCH, 3, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of images may vary."""
    return [[torch.randn(count, 3, IMAGE, IMAGE)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels of the input and of the output, and the stride."""
    return [3, CHANNELS, STRIDE]


PLACES = BATCH * IMAGE * IMAGE
LEAST_BYTES = 4 * PLACES * (3 + CHANNELS)
# Convolutions of 3 x 3 need a fifth of their multiplications (Winograd).
LEAST_OPERATIONS = 2 * PLACES * (CHANNELS * 3 + (CHANNELS * 3 + CHANNELS * CHANNELS) * 9 // 5)
