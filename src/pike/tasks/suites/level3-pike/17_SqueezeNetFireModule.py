"""Fire module of SqueezeNet on ten images of 224 x 224 (Iandola et al. 2016, arXiv:1602.07360).

Stresses: memory; six channels are expanded to twice 64, each half is written, rectified and copied into one map of
257 MB.
Changed against the published task: He weights and biases of a tenth, because half of the answers pass as zeros there.
Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
CHANNELS_IN = 3
SQUEEZE = 6
EXPAND1 = 64
EXPAND3 = 64
SMALL = {"BATCH": 2, "IMAGE": 64}


class Model(nn.Module):
    """A 1 x 1 convolution to few channels; 1 x 1 and 3 x 3 convolutions of them, side by side."""

    def __init__(self, channels_in: int, squeeze: int, expand1: int, expand3: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels_in, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand1, 1)
        self.expand3 = nn.Conv2d(squeeze, expand3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, expand1 + expand3, h, w)."""
        x = torch.relu_(self.squeeze(x))
        return torch.cat([torch.relu_(self.expand1(x)), torch.relu_(self.expand3(x))], 1)


def initialise(model: nn.Module) -> None:
    """He weights, small biases."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)


def get_inputs() -> list[torch.Tensor]:
    """One batch of images."""
    return [torch.randn(BATCH, CHANNELS_IN, IMAGE, IMAGE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of images may vary."""
    return [[torch.randn(count, CHANNELS_IN, IMAGE, IMAGE)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels of the input, of the squeezed map and of the two expanded ones."""
    return [CHANNELS_IN, SQUEEZE, EXPAND1, EXPAND3]


PLACES = BATCH * IMAGE * IMAGE
LEAST_BYTES = 4 * PLACES * (CHANNELS_IN + EXPAND1 + EXPAND3)
# Convolutions of 3 x 3 need a fifth of their multiplications (Winograd).
LEAST_OPERATIONS = 2 * PLACES * SQUEEZE * (CHANNELS_IN + EXPAND1 + EXPAND3 * 9 // 5)
