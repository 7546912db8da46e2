"""ResNet-18 for 1000 classes on 224 x 224 images (He et al. 2015, arXiv:1512.03385), batch 2.

Stresses: convolutions from 56 x 56 x 64 to 7 x 7 x 512, batch normalisation and residual additions.
The weights are meaningful: He initialisation, batch-norm statistics measured on a calibration batch, so that outputs
are of order one and every layer changes them. One call costs 7.3 GFLOP.
"""

import math

import torch
from torch import nn

BATCH = 2
IMAGE = 224
CLASSES = 1000
WIDTHS = (64, 128, 256, 512)
SMALL = {"IMAGE": 32, "CLASSES": 10, "WIDTHS": (8, 16)}
CALIBRATION_IMAGES = 4


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is projected where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            projection = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


class Model(nn.Module):
    """The network: stem, four stages of two blocks, average pooling, classifier."""

    def __init__(self, classes: int = CLASSES, widths: tuple[int, ...] = WIDTHS) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        channels_in = widths[0]
        for stage, channels in enumerate(widths):
            blocks.append(BasicBlock(channels_in, channels, stride=1 if stage == 0 else 2))
            blocks.append(BasicBlock(channels, channels, stride=1))
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, 224, 224) to logits (batch, classes)."""
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.blocks(x)
        logits: torch.Tensor = self.classifier(x.mean((2, 3)))
        return logits


def initialise(model: nn.Module) -> None:
    """He weights, batch-norm scales that differ per channel, statistics measured on calibration images."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)
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
    """Noise whose mean and contrast differ per image and channel, so that pooled features differ too."""
    contrast = 0.5 + torch.rand(count, 3, 1, 1)
    brightness = torch.randn(count, 3, 1, 1)
    return torch.randn(count, 3, IMAGE, IMAGE) * contrast + brightness


def get_inputs() -> list[torch.Tensor]:
    """One batch of images."""
    return [draw_images(BATCH)]


def get_init_inputs() -> list[int]:
    """The number of classes."""
    return [CLASSES]
