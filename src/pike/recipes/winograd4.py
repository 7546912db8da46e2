"""Winograd convolutions with tiles of 4 x 4 outputs where the transformed weights fit the caches, 2 x 2 elsewhere.

Four times fewer multiplications, for two to three times the rounding error of the direct sum: where the error budget
refuses it, `winograd2` is the repair. Knows nothing but the tile size; `winograd` does the work.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.recipe import Recipe, Stage
from pike.recipes.winograd import use_winograd, winograd_declines

MOST_TRANSFORMED_BYTES = 12_000_000
"""Above this, reading the transformed weights costs more than the multiplications saved."""


def winograd4(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """3 x 3 convolutions in tiles of 4 x 4 or 2 x 2 outputs."""
    return use_winograd(model, args, kwargs, winograd_tile)


def winograd_tile(weight: torch.Tensor) -> int:
    """The tile size for a (K, C, 3, 3) weight."""
    return 4 if weight.shape[0] * weight.shape[1] * 36 * 4 <= MOST_TRANSFORMED_BYTES else 2


RECIPE = Recipe(
    "winograd4",
    "3 x 3 convolutions by Winograd's algorithm in 4 x 4 tiles, 2 x 2 where weights are large",
    Stage.REWRITE,
    winograd4,
    winograd_declines,
    excludes=frozenset({"winograd2", "half", "bf16", "autocast_half", "autocast_bf16"}),
    prior_cpu=0.45,
    blamed_for=("winograd",),
)
