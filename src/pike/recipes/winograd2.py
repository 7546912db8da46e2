"""Winograd convolutions with tiles of 2 x 2 outputs.

2.25 times fewer multiplications, with a rounding error like that of the direct sum. Knows nothing but the tile size;
`winograd` does the work.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.recipe import Recipe, Stage
from pike.recipes.winograd import use_winograd, winograd_declines


def winograd2(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """3 x 3 convolutions in tiles of 2 x 2 outputs."""
    return use_winograd(model, args, kwargs, lambda _weight: 2)


RECIPE = Recipe(
    "winograd2",
    "3 x 3 convolutions by Winograd's algorithm in 2 x 2 tiles",
    Stage.REWRITE,
    winograd2,
    winograd_declines,
    excludes=frozenset({"winograd4", "half", "bf16", "autocast_half", "autocast_bf16"}),
    prior_cpu=0.3,
    blamed_for=("winograd",),
)
