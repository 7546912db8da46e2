"""DeepFM with 39 fields, batch 4,096 (Guo et al. 2017, arXiv:1703.04247).

Stresses: reading rows of one large table, second-order products and a perceptron with batch norm.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "recommender"
BATCH = 4096
FIELDS = 39
ROWS = 1000000
WIDTH = 16
HIDDEN = 400
SMALL = {"BATCH": 8, "FIELDS": 6, "ROWS": 200, "HIDDEN": 32}


class Model(nn.Module):
    """The network with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(ROWS, WIDTH)
        self.linear = nn.EmbeddingBag(ROWS, 1, mode="sum")
        layers: list[Any] = []
        for width in (FIELDS * WIDTH, HIDDEN):
            layers += [nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()]
            nn.init.uniform_(layers[-2].running_var, 0.2, 0.8)
        self.deep = nn.Sequential(*layers, nn.Linear(HIDDEN, 1))

    def forward(self, fields: torch.Tensor, values: torch.Tensor) -> Any:
        """Rows and values (batch, fields) to logits (batch, 1)."""
        vectors = self.vectors(fields) * values.unsqueeze(-1)
        second = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        first = self.linear(fields, per_sample_weights=values)
        return first + second / FIELDS + self.deep(vectors.flatten(1))


def get_inputs() -> list[torch.Tensor]:
    """Rows of the table and their values."""
    return [torch.randint(ROWS, (BATCH, FIELDS)), torch.rand(BATCH, FIELDS)]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
