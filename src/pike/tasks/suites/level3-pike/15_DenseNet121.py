"""DenseNet-121 without bottlenecks, for ten classes on ten images of 224 x 224 (Huang et al. 2016, arXiv:1608.06993).

Stresses: 58 convolutions of 3 x 3 with 32 output channels each, and memory: before each of them all earlier maps of the
block are concatenated anew and normalised.
Changed against the published task: three times He's weights, batch-norm statistics measured on calibration images, and
images of differing contrast and brightness. There, 62 of the 63 layers can be silenced and a constant passes. Shapes,
layers and arithmetic are the same; dropout with probability 0 is left out.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
LAYERS = (6, 12, 24, 16)
STEM = 64
GROWTH = 32
CLASSES = 10
SMALL = {"BATCH": 2, "IMAGE": 64, "LAYERS": (2, 3, 3, 2), "STEM": 16, "GROWTH": 8}
CALIBRATION_IMAGES = 32
CONVOLUTION_GAIN = 3.0  # so that a batch norm that is left out is seen


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


class DenseBlock(nn.Module):
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


class Transition(nn.Module):
    """Batch norm, ReLU, a 1 x 1 convolution that halves the channels, average pooling."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, h, w) to (batch, channels / 2, h / 2, w / 2)."""
        y: torch.Tensor = self.pool(self.conv(torch.relu_(self.bn(x))))
        return y


class Model(nn.Module):
    """Stem, dense blocks with transitions between them, average pooling, classifier."""

    def __init__(self, growth: int, classes: int, layers: tuple[int, ...], stem: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        channels = stem
        for block, count in enumerate(layers):
            if block:
                blocks.append(Transition(channels))
                channels //= 2
            blocks.append(DenseBlock(count, channels, growth))
            channels += count * growth
        self.blocks = nn.Sequential(*blocks)
        self.bn2 = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        x = self.pool(torch.relu_(self.bn1(self.conv1(x))))
        x = torch.relu_(self.bn2(self.blocks(x)))
        logits: torch.Tensor = self.classifier(x.mean((2, 3)))
        return logits


def initialise(model: nn.Module) -> None:
    """Weights, batch-norm scales that differ per channel, statistics measured on calibration images."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)
            else:
                module.weight.mul_(CONVOLUTION_GAIN)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)
    calibrate(model, draw_images(CALIBRATION_IMAGES))


def calibrate(model: nn.Module, images: torch.Tensor) -> None:
    """Set the statistics of every batch norm to those of one pass over `images`; leaves the model in training mode."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
    model.train()(images)
    for norm in norms:
        norm.momentum = 0.1


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
    """Channels that a layer adds, the number of classes, layers per block, channels of the stem."""
    return [GROWTH, CLASSES, LAYERS, STEM]


def least_operations() -> int:
    """Of blocks and transitions on one image; 3 x 3 needs a fifth of its multiplications (Winograd), pooling may come
    before a 1 x 1 convolution."""
    places, channels, total = (IMAGE // 4) ** 2, STEM, 0
    for block, count in enumerate(LAYERS):
        if block:
            places, channels = places // 4, channels // 2
            total += places * 2 * channels * channels
        total += places * GROWTH * sum(channels + GROWTH * layer for layer in range(count)) * 9 // 5
        channels += GROWTH * count
    return 2 * total


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = BATCH * least_operations()
