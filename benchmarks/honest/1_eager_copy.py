"""The reference again: its speedup must be 1 within the interval."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        hidden = self.linear(x)
        return hidden * torch.sigmoid(hidden) * self.scale + x
