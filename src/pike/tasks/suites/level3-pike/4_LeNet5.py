"""LeNet-5 with ReLU and max pooling for ten classes on one image of 32 x 32 (LeCun et al. 1998).

Stresses: launching kernels; 0.8 million operations are spread over twelve of them.
Changed against the published task: He weights and biases of a tenth, because answers have a deviation of 0.08 there and
half of them are right for any image. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn
from torch.nn import functional

BATCH = 1
CHANNELS = (6, 16)
HIDDEN = (120, 84)
CLASSES = 10
SMALL = {"CHANNELS": (3, 8), "HIDDEN": (60, 42)}
IMAGE = 32


class Model(nn.Module):
    """Two convolutions, each with pooling, and three linear layers."""

    def __init__(self, classes: int, channels: tuple[int, int], hidden: tuple[int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels[0], 5)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 5)
        self.fc1 = nn.Linear(25 * channels[1], hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 1, 32, 32) to logits (batch, classes)."""
        x = functional.max_pool2d(torch.relu(self.conv1(x)), 2, 2)
        x = functional.max_pool2d(torch.relu(self.conv2(x)), 2, 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        x = torch.relu(self.fc2(x))
        logits: torch.Tensor = self.fc3(x)
        return logits


def initialise(model: nn.Module) -> None:
    """He weights, small biases."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)


def get_inputs() -> list[torch.Tensor]:
    """One batch of images."""
    return [torch.randn(BATCH, 1, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of images may vary."""
    return [[torch.randn(count, 1, IMAGE, IMAGE)] for count in (3, 16)]


def get_init_inputs() -> list[object]:
    """The number of classes, the channels of the convolutions and the widths of the hidden layers."""
    return [CLASSES, CHANNELS, HIDDEN]


def least_operations() -> int:
    """Of one image; convolutions of 5 x 5 need an eighth of their multiplications (Winograd)."""
    convolutions = 28 * 28 * 25 * CHANNELS[0] // 8 + 10 * 10 * 25 * CHANNELS[0] * CHANNELS[1] // 8
    return 2 * (convolutions + 25 * CHANNELS[1] * HIDDEN[0] + HIDDEN[0] * HIDDEN[1] + HIDDEN[1] * CLASSES)


LEAST_BYTES = 4 * BATCH * (IMAGE * IMAGE + CLASSES)  # images and logits; weights may stay in a cache
LEAST_OPERATIONS = BATCH * least_operations()
