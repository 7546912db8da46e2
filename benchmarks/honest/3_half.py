"""The matrix product in half precision, the rest in float32; allowed only with --precision half."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.half(), self.linear.bias.half()
        hidden = torch.nn.functional.linear(x.half(), *self.packed).float()
        return hidden * torch.sigmoid(hidden) * self.scale + x
