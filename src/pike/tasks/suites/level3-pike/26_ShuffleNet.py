"""A network of 13 ShuffleNet units with stride 1, on ten images of 224 x 224 (Zhang et al. 2017, arXiv:1707.01083).

Stresses: grouped 1 x 1 convolutions, channel shuffles and depthwise 3 x 3 convolutions on up to 960 channels at 56 x
56: no unit halves the map, unlike in the paper, here as in the published task.
Changed against the published task: He weights with the fan-in of each group, batch-norm statistics measured on
calibration images, and images of differing contrast and brightness. There, outputs for different images differ by
1.2 %, so that a constant passes. Shapes, layers and arithmetic are the same, and so is the cost.
"""

import itertools
import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
GROUPS = 3
STEM = 24
STAGES = ((240, 3), (480, 7), (960, 3))
HEAD = 1024
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 64, "STAGES": ((48, 2), (96, 2)), "HEAD": 128, "CLASSES": 100}
CALIBRATION_IMAGES = 4


class Unit(nn.Module):
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


class Model(nn.Module):
    """Stem, stages of units, 1 x 1 convolution, average pooling, classifier."""

    def __init__(self, classes: int, groups: int, stem: int, stages: tuple[tuple[int, int], ...], head: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, stem, 3, 2, 1, bias=False), nn.BatchNorm2d(stem))
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [stem, *(channels for channels, repeats in stages for _ in range(repeats))]
        units = (Unit(before, after, groups) for before, after in itertools.pairwise(widths))
        self.units = nn.Sequential(*units)
        self.head = nn.Sequential(nn.Conv2d(widths[-1], head, 1, bias=False), nn.BatchNorm2d(head))
        self.classifier = nn.Linear(head, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        x = self.units(self.pool(torch.relu(self.stem(x))))
        logits: torch.Tensor = self.classifier(torch.relu(self.head(x)).mean((2, 3)))
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
            nn.init.normal_(module.bias, 0.0, 0.2)
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
    """The number of classes and of groups, the stem's width, each stage's channels and repeats, the last width."""
    return [CLASSES, GROUPS, STEM, STAGES, HEAD]


def least_operations() -> int:
    """Of the 1 x 1 convolutions and the classifier; the others are too small to matter."""
    weights, channels_in = 0, STEM
    for channels, repeats in STAGES:
        weights += channels_in * channels
        for _ in range(repeats):
            weights += channels // 4 * (channels_in + channels) // GROUPS
            channels_in = channels
    side = (IMAGE + 3) // 4
    return 2 * BATCH * (side * side * (weights + channels_in * HEAD) + HEAD * CLASSES)


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = least_operations()
