"""An MBConv block without squeeze-and-excitation, on ten maps of 112 x 224 x 224 (Tan and Le 2019, arXiv:1905.11946).

Stresses: an expansion to 672 channels at full resolution, a depthwise 5 x 5 convolution with stride 2, a projection to
192 channels; the wide map of 1.3 GB between the first two dominates unless they are fused.
Changed against the published task: He weights with the fan-in of each group, batch-norm scales large enough that ReLU6
clips, and statistics measured on a calibration map. There, the output's standard deviation is 0.1 and nothing is ever
clipped. Shapes, layers and arithmetic are the same, and so is the cost.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
CHANNELS_IN = 112
CHANNELS = 192
KERNEL = 5
STRIDE = 2
EXPANSION = 6
SMALL = {"BATCH": 2, "IMAGE": 32, "CHANNELS_IN": 16, "CHANNELS": 24}


class Model(nn.Module):
    """Widen, filter each channel, narrow without an activation; a residual where the shape stays."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels_in * expansion
        self.expand = nn.Conv2d(channels_in, wide, 1, bias=False)
        self.expand_norm = nn.BatchNorm2d(wide)
        self.depthwise = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(wide)
        self.project = nn.Conv2d(wide, channels, 1, bias=False)
        self.project_norm = nn.BatchNorm2d(channels)
        self.is_residual = stride == 1 and channels_in == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        y = nn.functional.relu6(self.expand_norm(self.expand(x)))
        y = nn.functional.relu6(self.depthwise_norm(self.depthwise(y)))
        narrow: torch.Tensor = self.project_norm(self.project(y))
        return x + narrow if self.is_residual else narrow


def initialise(model: nn.Module) -> None:
    """He weights, batch-norm scales that differ per channel, statistics of one pass over a calibration map."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 3.0)
            nn.init.normal_(module.bias, 0.0, 0.2)
            module.momentum = None  # the statistics become those of the pass, not a moving average
    model.train()(draw_maps(1))


def draw_maps(count: int) -> torch.Tensor:
    """Standard normal feature maps."""
    return torch.randn(count, CHANNELS_IN, IMAGE, IMAGE)


def get_inputs() -> list[torch.Tensor]:
    """One batch of feature maps."""
    return [draw_maps(BATCH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of maps may vary."""
    return [[draw_maps(count)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """Channels in and out, the depthwise kernel and its stride, the expansion."""
    return [CHANNELS_IN, CHANNELS, KERNEL, STRIDE, EXPANSION]


SIDE = (IMAGE + STRIDE - 1) // STRIDE
WIDE = CHANNELS_IN * EXPANSION
LEAST_BYTES = 4 * BATCH * (CHANNELS_IN * IMAGE * IMAGE + CHANNELS * SIDE * SIDE)  # maps in and out
LEAST_OPERATIONS = 2 * BATCH * WIDE * (CHANNELS_IN * IMAGE * IMAGE + CHANNELS * SIDE * SIDE)  # 1 x 1 convolutions
