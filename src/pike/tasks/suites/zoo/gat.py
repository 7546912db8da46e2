"""A graph attention network of PyTorch Geometric, 10,000 nodes and 100,000 edges
(Veličković et al. 2017, arXiv:1710.10903).

Stresses: a softmax over each node's edges, with gathers and scatters.
"""

from typing import Any

import torch
from torch import nn
from torch_geometric.nn import GAT

FAMILY = "graph-network"
NODES = 10000
EDGES = 100000
FEATURES = 128
HIDDEN = 256
LAYERS = 3
SMALL = {"NODES": 60, "EDGES": 300, "FEATURES": 16, "HIDDEN": 32}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net = GAT(FEATURES, HIDDEN, LAYERS, out_channels=40, heads=8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        """Features (nodes, features) and edges (2, edges) to logits (nodes, 40)."""
        return self.net(x, edges)


def get_inputs() -> list[torch.Tensor]:
    """Features of the nodes, and pairs of nodes joined by an edge."""
    return [torch.randn(NODES, FEATURES), torch.randint(NODES, (2, EDGES))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
