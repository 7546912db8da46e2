"""SegFormer-B0 of transformers on 512 x 512 images, batch 4 (Xie et al. 2021, arXiv:2105.15203).

Stresses: attention to reduced keys, depthwise convolutions between linear layers, and upsampling.
"""

from typing import Any

import torch
from torch import nn
from transformers import SegformerConfig, SegformerForSemanticSegmentation

FAMILY = "segmentation"
BATCH = 4
IMAGE = 512
WIDTHS = [32, 64, 160, 256]
DECODER = 256
SMALL = {"BATCH": 2, "IMAGE": 64, "WIDTHS": [16, 16, 40, 64], "DECODER": 32}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        config = SegformerConfig(
            hidden_sizes=WIDTHS,
            decoder_hidden_size=DECODER,
            num_labels=150,
            initializer_range=0.1,
        )
        self.net = SegformerForSemanticSegmentation(config)

    def forward(self, images: torch.Tensor) -> Any:
        """Images (batch, 3, height, width) to logits (batch, 150, height / 4, width / 4)."""
        return self.net(images).logits


def get_inputs() -> list[torch.Tensor]:
    """Images of different brightness and contrast."""
    contrast, brightness = 0.5 + torch.rand(BATCH, 3, 1, 1), torch.randn(BATCH, 3, 1, 1)
    return [torch.randn(BATCH, 3, IMAGE, IMAGE) * contrast + brightness]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
