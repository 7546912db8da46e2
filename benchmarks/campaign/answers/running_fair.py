# The gains are applied at once; the loop only adds.
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(steps))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled = (x * self.gain).unbind(dim=1)
        sums = [scaled[0]]
        for column in scaled[1:]:
            sums.append(sums[-1] + column)
        return torch.stack(sums, dim=1)
