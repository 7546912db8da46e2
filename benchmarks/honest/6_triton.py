"""The elementwise tail in one autotuned Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune([triton.Config({"BLOCK": block}, num_warps=warps) for block in (512, 1024) for warps in (4, 8)], [])
@triton.jit
def gated(h_pointer, s_pointer, x_pointer, y_pointer, count, width, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    h = tl.load(h_pointer + offsets, inside)
    s = tl.load(s_pointer + offsets % width, inside)
    x = tl.load(x_pointer + offsets, inside)
    tl.store(y_pointer + offsets, h * tl.sigmoid(h) * s + x, inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        h, y = self.linear(x), torch.empty_like(x)
        gated[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](h, self.scale, x, y, x.numel(), x.shape[1])
        return y
