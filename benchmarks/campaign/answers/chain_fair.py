# One fused multiply and add for each link.
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width: int, links: int) -> None:
        super().__init__()
        self.scales = nn.Parameter(torch.empty(links, width))
        self.shifts = nn.Parameter(torch.empty(links, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            x = torch.addcmul(shift, x, scale)
        return x
