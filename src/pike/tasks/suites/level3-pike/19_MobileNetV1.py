"""MobileNet v1 for 1000 classes on ten images of 224 x 224 (Howard et al. 2017, arXiv:1704.04861).

Stresses: depthwise 3 x 3 convolutions, which move many bytes for few operations, each followed by a 1 x 1 convolution,
which is a matrix product; batch normalisation and ReLU after both.
Changed against the published task: He weights with the fan-in of each group, batch-norm statistics measured on
calibration images, and images of differing contrast and brightness. There, the output does not depend on the input
(by 1e-11), so that a constant passes. Shapes, layers and arithmetic are the same, and so is the cost.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
STEM = 32
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 64, "STEM": 16, "BLOCKS": ((32, 1), (64, 2), (64, 1), (128, 2)), "CLASSES": 100}
CALIBRATION_IMAGES = 4


class Convolution(nn.Module):
    """A convolution without bias, batch normalisation, ReLU."""

    def __init__(self, channels_in: int, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        return torch.relu(self.norm(self.conv(x)))


class Model(nn.Module):
    """Stem, pairs of a depthwise and a 1 x 1 convolution, average pooling, classifier."""

    def __init__(self, classes: int, stem: int, blocks: tuple[tuple[int, int], ...]) -> None:
        super().__init__()
        layers = [Convolution(3, stem, 3, stride=2)]
        channels_in = stem
        for channels, stride in blocks:
            layers.append(Convolution(channels_in, channels_in, 3, stride, groups=channels_in))
            layers.append(Convolution(channels_in, channels))
            channels_in = channels
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        logits: torch.Tensor = self.classifier(self.features(x).mean((2, 3)))
        return logits


def initialise(model: nn.Module) -> None:
    """He weights, batch-norm scales that differ per channel, statistics of one pass over calibration images."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.5, 0.2)  # the more often ReLU bends, the more rounding grows
            module.momentum = None  # the statistics become those of the pass, not a moving average
    model.train()(draw_images(CALIBRATION_IMAGES))


def draw_images(count: int) -> torch.Tensor:
    """Noise whose contrast and mean differ per image and channel, so that pooled features differ too."""
    contrast = 0.5 + torch.rand(count, 3, 1, 1)
    brightness = torch.randn(count, 3, 1, 1)
    return torch.randn(count, 3, IMAGE, IMAGE) * contrast + brightness


def get_inputs() -> list[torch.Tensor]:
    """One batch of images."""
    return [draw_images(BATCH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of images may vary."""
    return [[draw_images(count)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """The number of classes, the width of the stem, and each block's channels and stride."""
    return [CLASSES, STEM, BLOCKS]


def least_operations() -> int:
    """Of the 1 x 1 convolutions and the classifier; the others are too small to matter."""
    total, side, channels_in = 0, (IMAGE + 1) // 2, STEM
    for channels, stride in BLOCKS:
        side = (side + stride - 1) // stride
        total += 2 * side * side * channels_in * channels
        channels_in = channels
    return BATCH * (total + 2 * channels_in * CLASSES)


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = least_operations()
