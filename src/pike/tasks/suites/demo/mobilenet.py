"""A MobileNetV2-style network on 224 x 224 images (Sandler et al. 2018, arXiv:1801.04381), batch 2.

Stresses: pointwise and depthwise convolutions, batch normalisation, clipped activations, linear bottlenecks.
Weights as in `resnet18`: He initialisation and measured batch-norm statistics. One call costs 1.2 GFLOP.
"""

import math

import torch
from torch import nn

BATCH = 2
IMAGE = 224
CLASSES = 1000
CALIBRATION_IMAGES = 4
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Rows of (expansion, output channels, blocks, stride of the first block)."""
SMALL = {"IMAGE": 32, "CLASSES": 10, "STAGES": ((1, 8, 1, 1), (2, 8, 2, 2))}


class ConvNorm(nn.Sequential):
    """Convolution, batch norm and, where `clipped`, ReLU6."""

    def __init__(
        self, channels_in: int, channels: int, kernel: int, stride: int = 1, groups: int = 1, clipped: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(channels),
        ]
        if clipped:
            layers.append(nn.ReLU6())
        super().__init__(*layers)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to the input where the shapes agree."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(ConvNorm(channels_in, hidden, 1))
        layers.append(ConvNorm(hidden, hidden, 3, stride, groups=hidden))
        layers.append(ConvNorm(hidden, channels, 1, clipped=False))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels_in == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        y: torch.Tensor = self.layers(x)
        return x + y if self.residual else y


class Model(nn.Module):
    """The network: stem, seven stages, head, average pooling, classifier."""

    def __init__(self, classes: int = CLASSES, stages: tuple[tuple[int, int, int, int], ...] = STAGES) -> None:
        super().__init__()
        channels_in, head = 32, 1280
        layers: list[nn.Module] = [ConvNorm(3, channels_in, 3, 2)]
        for expansion, channels, blocks, stride in stages:
            for block in range(blocks):
                layers.append(InvertedResidual(channels_in, channels, stride if block == 0 else 1, expansion))
                channels_in = channels
        layers.append(ConvNorm(channels_in, head, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(head, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, 224, 224) to logits (batch, classes)."""
        logits: torch.Tensor = self.classifier(self.features(x).mean((2, 3)))
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
