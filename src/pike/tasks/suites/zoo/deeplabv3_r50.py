"""DeepLabV3 with ResNet-50 of torchvision on 256 x 256 images, batch 4 (Chen et al. 2017, arXiv:1706.05587).

Stresses: dilated convolutions and upsampling; it returns a dict.
"""

import math
from typing import Any

import torch
from torch import nn
from torchvision.models import get_model

FAMILY = "segmentation"
NAME = "deeplabv3_resnet50"
BATCH = 4
IMAGE = 256
SMALL = {"NAME": "deeplabv3_mobilenet_v3_large", "BATCH": 2, "IMAGE": 64}
CALIBRATION = 16


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net = get_model(NAME, weights=None, weights_backbone=None, num_classes=21)

    def forward(self, images: torch.Tensor) -> Any:
        """Images (batch, 3, height, width) to a dict with `out`, the logits (batch, 21, height, width)."""
        return self.net(images)


def initialise(model: nn.Module) -> None:
    """He weights, norms that differ by channel, and the batch statistics of one pass.

    Residual branches end in small norms, as in trained networks: otherwise rounding grows from block to block.
    """
    for path, module in model.named_modules():
        for name, own in module.named_parameters(recurse=False):
            if own.dim() > 1:
                nn.init.normal_(own, 0.0, math.sqrt(2.0 / own[0].numel()))
            elif name == "weight":
                least = 0.1 if path.endswith(".bn3") else 0.5
                nn.init.uniform_(own, least, 3.0 * least)
            else:
                nn.init.normal_(own, 0.0, 0.1)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = None
    model.train()(*draw(CALIBRATION))


def draw(batch: int) -> list[torch.Tensor]:
    """A coarse pattern under noise, because a network sees little difference between images of noise."""
    pattern = nn.functional.interpolate(torch.randn(batch, 3, 4, 4), IMAGE)
    return [pattern + 0.5 * torch.randn(batch, 3, IMAGE, IMAGE)]


def get_inputs() -> list[torch.Tensor]:
    """The usual batch."""
    return draw(BATCH)


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
