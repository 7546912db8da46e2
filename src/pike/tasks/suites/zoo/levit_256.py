"""LeViT-256 of timm on 224 x 224 images, batch 32 (Graham et al. 2021, arXiv:2104.01136).

Stresses: linear layers with batch norm, attention biases and strided attention; many small kernels.
"""

import math
from typing import Any

import timm
import torch
from torch import nn

FAMILY = "hybrid"
BATCH = 32
IMAGE = 224
SMALL = {"BATCH": 2}
CALIBRATION = 16
MILD = ("qkv.bn", "kv.bn", "q.ln.bn", "proj.ln.bn", "mlp.ln2.bn")
"""Norms before a softmax or at the end of a branch, which large weights would make a switch."""


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net = timm.create_model("levit_256")

    def forward(self, images: torch.Tensor) -> Any:
        """Images (batch, 3, height, width) to logits (batch, 1000)."""
        return self.net(images)


def initialise(model: nn.Module) -> None:
    """He weights, norms that differ by channel, and the batch statistics of one pass."""
    for path, module in model.named_modules():
        for name, own in module.named_parameters(recurse=False):
            if own.dim() > 1:
                nn.init.normal_(own, 0.0, math.sqrt(2.0 / own[0].numel()))
            elif name == "weight":
                least = 0.2 if path.endswith(MILD) else 0.5
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
