"""Three stages of two 3 x 3 convolutions and a max pooling, named after RegNet, on eight images of 224 x 224.

Stresses: dense 3 x 3 convolutions of 64 to 256 channels on large maps, as in VGG (Simonyan and Zisserman 2014,
arXiv:1409.1556): arithmetic, with batch normalisation, ReLU and pooling to be fused. RegNet itself (Radosavovic et al.
2020, arXiv:2003.13678) has residual bottlenecks with grouped convolutions; the published task has only its name.
Changed against the published task: He weights, batch-norm statistics measured on calibration images, and images of
differing contrast and brightness. There, outputs for different images differ by 0.15 %, so that a constant passes.
Shapes, layers and arithmetic are the same, and so is the cost.
"""

import math

import torch
from torch import nn

BATCH = 8
IMAGE = 224
WIDTHS = (64, 128, 256)
CLASSES = 10
SMALL = {"BATCH": 2, "IMAGE": 48, "WIDTHS": (16, 32, 64)}
CALIBRATION_IMAGES = 4


def stage(channels_in: int, channels: int) -> list[nn.Module]:
    """Twice a convolution with bias, batch normalisation and ReLU; then halve the map."""
    layers: list[nn.Module] = []
    for before in (channels_in, channels):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
    return [*layers, nn.MaxPool2d(2)]


class Model(nn.Module):
    """Stages, the mean over each map, classifier."""

    def __init__(self, channels_in: int, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels in widths:
            layers += stage(channels_in, channels)
            channels_in = channels
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, channels_in, h, w) to logits (batch, classes)."""
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
    """Channels of an image, the widths of the stages, the number of classes."""
    return [3, WIDTHS, CLASSES]


def least_operations() -> int:
    """Of the convolutions, a fifth of whose multiplications suffice (Winograd)."""
    total, side, channels_in = 0, IMAGE, 3
    for channels in WIDTHS:
        total += 2 * 9 * side * side * channels * (channels_in + channels) // 5
        side, channels_in = side // 2, channels
    return BATCH * total


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = least_operations()
