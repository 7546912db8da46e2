"""ResNet-101 for 1000 classes on ten images of 224 x 224 (He et al. 2015, arXiv:1512.03385).

Stresses: 100 convolutions in bottlenecks, most of them 1 x 1, with batch norm, ReLU and residual addition between them.
Changed against the published task: twice He's weights, batch norms that end a block weighted lightly, batch-norm
statistics measured on calibration images, and images of differing contrast and brightness. There, 99 of the 105 layers
can be silenced and a constant passes. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
LAYERS = (3, 4, 23, 3)
WIDTHS = (64, 128, 256, 512)
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 64, "LAYERS": (2, 2, 2, 2), "WIDTHS": (8, 16, 32, 64), "CLASSES": 100}
EXPANSION = 4
CALIBRATION_IMAGES = 32
CONVOLUTION_GAIN = 2.0  # so that a batch norm that is left out is seen
BRANCH_GAIN = 0.15  # with 1, rounding errors of bfloat16 grow to 45 % of the answer and hide whole layers


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut, which is projected where the shape changes."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels = EXPANSION * width
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            projection = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, 4 width, h / stride, w / stride)."""
        y = torch.relu_(self.bn1(self.conv1(x)))
        y = torch.relu_(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.shortcut(x)
        return torch.relu_(y)


class Model(nn.Module):
    """Stem, four stages of bottlenecks, average pooling, classifier."""

    def __init__(self, layers: tuple[int, ...], classes: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        channels_in = widths[0]
        for stage, (width, count) in enumerate(zip(widths, layers, strict=True)):
            for block in range(count):
                blocks.append(Bottleneck(channels_in, width, stride=2 if stage and not block else 1))
                channels_in = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        x = self.pool(torch.relu_(self.bn1(self.conv1(x))))
        x = self.blocks(x)
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
    for module in model.modules():
        if isinstance(module, Bottleneck):
            module.bn3.weight.mul_(BRANCH_GAIN)
            module.bn3.bias.mul_(BRANCH_GAIN)
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
    """Blocks per stage, the number of classes and the widths of the stages."""
    return [LAYERS, CLASSES, WIDTHS]


def least_operations() -> int:
    """Of the blocks on one image; convolutions of 3 x 3 need a fifth of their multiplications (Winograd)."""
    places, channels, total = (IMAGE // 4) ** 2, WIDTHS[0], 0
    for stage, (width, count) in enumerate(zip(WIDTHS, LAYERS, strict=True)):
        for block in range(count):
            total += places * channels * width
            places //= 4 if stage and not block else 1
            total += places * width * (width * 9 // 5 + EXPANSION * width)
            total += 0 if block else places * channels * EXPANSION * width
            channels = EXPANSION * width
    return 2 * total


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; most weights may stay in a cache
LEAST_OPERATIONS = BATCH * least_operations()
