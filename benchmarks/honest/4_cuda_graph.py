"""The eager forward captured in a CUDA graph; inputs are copied in, outputs copied out."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))
        self.graph = None

    def plain(self, x):
        hidden = self.linear(x)
        return hidden * torch.sigmoid(hidden) * self.scale + x

    def capture(self, x):
        self.static = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.plain(self.static)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.plain(self.static)

    def forward(self, x):
        if self.graph is None:
            self.capture(x)
        self.static.copy_(x)
        self.graph.replay()
        return self.result.clone()
