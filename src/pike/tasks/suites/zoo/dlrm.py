"""DLRM with 26 embedding bags, batch 2,048 (Naumov et al. 2019, arXiv:1906.00091).

Stresses: reading rows of large tables, 4 a bag, and the products of all pairs of features.
"""

from typing import Any

import torch
from torch import nn

FAMILY = "recommender"
BATCH = 2048
TABLES = 26
ROWS = 50000
WIDTH = 64
BAG = 4
NUMBERS = 13
HIDDEN = 512
SMALL = {"BATCH": 8, "TABLES": 4, "ROWS": 50, "WIDTH": 16, "HIDDEN": 32}


class Model(nn.Module):
    """The network with random weights."""

    pairs: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        tables = [nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(TABLES)]
        for table in tables:
            nn.init.normal_(table.weight, 0.0, 0.3)
        self.tables = nn.ModuleList(tables)
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH), nn.ReLU())
        pairs = TABLES * (TABLES + 1) // 2
        self.top = nn.Sequential(
            nn.Linear(WIDTH + pairs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )
        self.register_buffer("pairs", torch.triu_indices(TABLES + 1, TABLES + 1, 1))

    def forward(self, numbers: torch.Tensor, rows: torch.Tensor) -> Any:
        """Numbers (batch, 13) and rows (tables, batch, bag) to click probabilities (batch, 1)."""
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *(table(one) for table, one in zip(self.tables, rows.unbind(), strict=True))], 1)
        products = (vectors @ vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat((dense, products), 1)))


def get_inputs() -> list[torch.Tensor]:
    """Numbers of each visit, and rows of each table."""
    return [torch.randn(BATCH, NUMBERS), torch.randint(ROWS, (TABLES, BATCH, BAG))]


def get_init_inputs() -> list[object]:
    """Nothing."""
    return []
