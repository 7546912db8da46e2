"""PointNet for clouds of any number of points, in plain PyTorch (Qi et al. 2016, arXiv:1612.00593).

Stresses: 1 x 1 convolutions with batch norm, and a maximum over all points.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "dynamic"
BATCH = 16
POINTS = 2048
WIDTHS = (64, 128, 1024)
CLASSES = 40
SMALL = {"BATCH": 3, "POINTS": 40, "WIDTHS": (16, 24, 64)}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[Any] = []
        for width_in, width in zip((3, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv1d(width_in, width, 1), nn.BatchNorm1d(width), nn.ReLU()]
            nn.init.uniform_(layers[-2].running_var, 0.2, 0.8)
        self.points = nn.Sequential(*layers)
        self.classes = nn.Sequential(nn.Linear(WIDTHS[-1], 256), nn.ReLU(), nn.Linear(256, CLASSES))

    def forward(self, points: torch.Tensor) -> Any:
        """Points (batch, 3, points) to logits (batch, classes)."""
        return self.classes(self.points(points).amax(-1))


def draw(batch: int, points: int) -> list[torch.Tensor]:
    """Clouds of different size and place."""
    return [torch.randn(batch, 3, points) * (0.5 + torch.rand(batch, 3, 1)) + torch.randn(batch, 3, 1)]


def get_inputs() -> list[torch.Tensor]:
    """The usual batch."""
    return draw(BATCH, POINTS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """One point, and odd numbers of clouds and points."""
    return [draw(1, 1), draw(BATCH - 1, POINTS // 2 + 1), draw(1, POINTS + 1)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
