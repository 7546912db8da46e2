"""Multilayer perceptron of three layers on one row: 1000 to 2000 to 2000 to 10 features.

Stresses: products of a matrix and a vector, bound by reading 24 MB of weights; the ten answers leave the last layer
hardly any parallelism.
Changed against the published task: He weights and biases of a tenth, because answers have a deviation of 0.1 there.
Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 1
FEATURES = 1000
HIDDEN = (2000, 2000)
OUTPUTS = 10
SMALL = {"FEATURES": 100, "HIDDEN": (200, 200)}


class Model(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, features: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(features, width), nn.ReLU()]
            features = width
        self.layers = nn.Sequential(*layers, nn.Linear(features, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, features) to (batch, outputs)."""
        y: torch.Tensor = self.layers(x)
        return y


def initialise(model: nn.Module) -> None:
    """He weights, small biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.in_features))
            nn.init.normal_(module.bias, 0.0, 0.1)


def get_inputs() -> list[torch.Tensor]:
    """One row."""
    return [torch.randn(BATCH, FEATURES)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of rows may vary."""
    return [[torch.randn(rows, FEATURES)] for rows in (3, 16)]


def get_init_inputs() -> list[object]:
    """Numbers of features: of the input, of the hidden layers, of the output."""
    return [FEATURES, HIDDEN, OUTPUTS]


LEAST_BYTES = 4 * BATCH * (FEATURES + OUTPUTS)  # input and output; weights may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * sum(a * b for a, b in zip((FEATURES, *HIDDEN), (*HIDDEN, OUTPUTS), strict=True))
