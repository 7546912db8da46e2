"""RetinaNet with ResNet-50 and FPN of torchvision on 512 x 512 images, batch 2 (Lin et al. 2017, arXiv:1708.02002).

Stresses: a feature pyramid and heads over five levels. Boxes are not selected: their number would vary.
"""

from typing import Any

import torch
from torch import nn
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

FAMILY = "detection"
BATCH = 2
IMAGE = 512
BACKBONE = "resnet50"
SMALL = {"IMAGE": 64, "BACKBONE": "resnet18"}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        net = RetinaNet(resnet_fpn_backbone(backbone_name=BACKBONE, weights=None, trainable_layers=5), 91)
        self.backbone, self.head = net.backbone, net.head

    def forward(self, images: torch.Tensor) -> Any:
        """Images (batch, 3, height, width) to a dict with class logits and box regressions of all anchors."""
        return self.head(list(self.backbone(images).values()))


def get_inputs() -> list[torch.Tensor]:
    """Images of different brightness and contrast."""
    contrast, brightness = 0.5 + torch.rand(BATCH, 3, 1, 1), torch.randn(BATCH, 3, 1, 1)
    return [torch.randn(BATCH, 3, IMAGE, IMAGE) * contrast + brightness]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
