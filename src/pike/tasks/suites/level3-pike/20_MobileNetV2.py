"""MobileNet v2 without its residual additions, for 1000 classes on ten images (Sandler et al. 2018, arXiv:1801.04381).

Stresses: inverted bottlenecks: a 1 x 1 convolution to six times the channels, a depthwise 3 x 3 one, a 1 x 1 one back;
most of the time goes into moving the wide maps between them.
Changed against the published task: He weights with the fan-in of each group, batch-norm scales and offsets at which
ReLU6 clips but rounding grows little, statistics measured on calibration images, and images of differing contrast and
brightness. There, the largest output is 9e-21, so that zeros pass. The additions of the paper are missing there and
here, which keeps the cost equal.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
STEM = 32
HEAD = 1280
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 64, "HEAD": 192, "STAGES": ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 1, 2)), "CLASSES": 100}
CALIBRATION_IMAGES = 4


class Convolution(nn.Module):
    """A convolution without bias, batch normalisation, and ReLU6 unless it is linear."""

    def __init__(self, channels_in: int, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.linear = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        y: torch.Tensor = self.norm(self.conv(x))
        return y if self.linear else nn.functional.relu6(y)


def bottleneck(channels_in: int, channels: int, expansion: int, stride: int) -> list[Convolution]:
    """Widen (unless `expansion` is 1), filter each channel, narrow without an activation."""
    wide = channels_in * expansion
    layers = [Convolution(channels_in, wide)] if expansion != 1 else []
    narrow = Convolution(wide, channels)
    narrow.linear = True
    return [*layers, Convolution(wide, wide, 3, stride, groups=wide), narrow]


class Model(nn.Module):
    """Stem, inverted bottlenecks, 1 x 1 convolution, average pooling, classifier."""

    def __init__(self, classes: int, stem: int, stages: tuple[tuple[int, int, int, int], ...], head: int) -> None:
        super().__init__()
        layers = [Convolution(3, stem, 3, stride=2)]
        channels_in = stem
        for expansion, channels, repeats, first_stride in stages:
            for index in range(repeats):
                layers += bottleneck(channels_in, channels, expansion, 1 if index else first_stride)
                channels_in = channels
        layers.append(Convolution(channels_in, head))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(head, classes)

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
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias, 1.0, 0.2)  # the more often ReLU bends, the more rounding grows
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
    """The number of classes, the stem's width, each stage's expansion, channels, repeats and stride, the last width."""
    return [CLASSES, STEM, STAGES, HEAD]


def least_operations() -> int:
    """Of the 1 x 1 convolutions and the classifier; the others are too small to matter."""
    total, side, channels_in = 0, (IMAGE + 1) // 2, STEM
    for expansion, channels, repeats, first_stride in STAGES:
        for index in range(repeats):
            wide = channels_in * expansion
            total += 2 * side * side * channels_in * wide * (expansion != 1)
            side = side if index else (side + first_stride - 1) // first_stride
            total += 2 * side * side * wide * channels
            channels_in = channels
    return BATCH * (total + 2 * HEAD * (side * side * channels_in + CLASSES))


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = least_operations()
