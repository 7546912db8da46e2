# All links folded into one scale and one shift when the weights are there.
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width: int, links: int) -> None:
        super().__init__()
        self.scales = nn.Parameter(torch.empty(links, width))
        self.shifts = nn.Parameter(torch.empty(links, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, shift = torch.ones_like(self.scales[0]), torch.zeros_like(self.shifts[0])
        for one, other in zip(self.scales, self.shifts, strict=True):
            scale, shift = scale * one, shift * one + other
        return torch.addcmul(shift, x, scale)
