"""YOLOS-tiny of transformers on 512 x 512 images, batch 4 (Fang et al. 2021, arXiv:2106.00666).

Stresses: attention over 1,124 tokens, with positions that are interpolated; it returns classes and boxes.
"""

from typing import Any

import torch
from torch import nn
from transformers import YolosConfig, YolosForObjectDetection

FAMILY = "detection"
BATCH = 4
IMAGE = 512
WIDTH = 192
LAYERS = 12
HEADS = 3
SMALL = {"BATCH": 2, "IMAGE": 64, "WIDTH": 64, "LAYERS": 2, "HEADS": 4}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = YolosConfig(
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            image_size=[IMAGE, IMAGE],
            initializer_range=WIDTH**-0.5,
        )
        self.net = YolosForObjectDetection(config)

    def forward(self, images: torch.Tensor) -> Any:
        """Images (batch, 3, height, width) to a `ModelOutput` with logits and boxes of 100 queries."""
        return self.net(images)


def get_inputs() -> list[torch.Tensor]:
    """Images of different brightness and contrast."""
    contrast, brightness = 0.5 + torch.rand(BATCH, 3, 1, 1), torch.randn(BATCH, 3, 1, 1)
    return [torch.randn(BATCH, 3, IMAGE, IMAGE) * contrast + brightness]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
