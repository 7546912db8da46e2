"""Inception module with the widths of "4a" on ten maps of 480 x 224 x 224 (Szegedy et al. 2014, arXiv:1409.4842).

Stresses: four branches that read the same 963 MB, of which 1 x 1 convolutions make few channels; no activation lies
between the convolutions of a branch.
Changed against the published task: weights that keep the variance, and biases of a tenth. Shapes, layers and arithmetic
are the same.
"""

import math

import torch
from torch import nn

BATCH = 10
CHANNELS = 480
IMAGE = 224
WIDTHS = (192, 96, 208, 16, 48, 64)  # 1x1; reduced and 3x3; reduced and 5x5; after pooling
SMALL = {"BATCH": 2, "CHANNELS": 30, "IMAGE": 32, "WIDTHS": (12, 6, 13, 2, 6, 8)}


class Model(nn.Module):
    """1 x 1, 3 x 3 and 5 x 5 convolutions and pooling side by side, their channels one after the other."""

    def __init__(self, channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        direct, reduce3, out3, reduce5, out5, pooled = widths
        self.direct = nn.Conv2d(channels, direct, 1)
        self.branch3 = nn.Sequential(nn.Conv2d(channels, reduce3, 1), nn.Conv2d(reduce3, out3, 3, padding=1))
        self.branch5 = nn.Sequential(nn.Conv2d(channels, reduce5, 1), nn.Conv2d(reduce5, out5, 5, padding=2))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(channels, pooled, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to (batch, all widths but the reduced ones, h, w)."""
        return torch.cat([self.direct(x), self.branch3(x), self.branch5(x), self.pooled(x)], 1)


def initialise(model: nn.Module) -> None:
    """Weights that keep the variance, small biases."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(1.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)


def get_inputs() -> list[torch.Tensor]:
    """One batch of feature maps."""
    return [torch.randn(BATCH, CHANNELS, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of maps may vary."""
    return [[torch.randn(count, CHANNELS, IMAGE, IMAGE)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels of the input and of the six convolutions."""
    return [CHANNELS, WIDTHS]


def least_operations() -> int:
    """Of one place; 3 x 3 and 5 x 5 need a fifth and an eighth of their multiplications (Winograd)."""
    direct, reduce3, out3, reduce5, out5, pooled = WIDTHS
    pointwise = CHANNELS * (direct + reduce3 + reduce5 + pooled)
    return 2 * (pointwise + reduce3 * out3 * 9 // 5 + reduce5 * out5 * 25 // 8)


PLACES = BATCH * IMAGE * IMAGE
LEAST_BYTES = 4 * PLACES * (CHANNELS + WIDTHS[0] + WIDTHS[2] + WIDTHS[4] + WIDTHS[5])
LEAST_OPERATIONS = PLACES * least_operations()
