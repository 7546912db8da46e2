"""Every recipe, listed once.

Knows their order, which only breaks ties of stage. A new recipe is one file beside this one and one line here.
"""

from __future__ import annotations

from pike.recipes import (
    autocast_bf16,
    autocast_half,
    bf16,
    channels_last,
    compile_default,
    cuda_graph,
    fold_batch_norm,
    fold_constants,
    freeze,
    fuse_linears,
    half,
    max_autotune,
    reduce_overhead,
    sdpa,
    tf32,
    trace_frozen,
    winograd2,
    winograd4,
)
from pike.recipes.recipe import Recipe

RECIPES: tuple[Recipe, ...] = (
    fold_batch_norm.RECIPE,
    winograd2.RECIPE,
    winograd4.RECIPE,
    sdpa.RECIPE,
    fuse_linears.RECIPE,
    half.RECIPE,
    bf16.RECIPE,
    autocast_half.RECIPE,
    autocast_bf16.RECIPE,
    fold_constants.RECIPE,
    channels_last.RECIPE,
    compile_default.RECIPE,
    reduce_overhead.RECIPE,
    max_autotune.RECIPE,
    trace_frozen.RECIPE,
    cuda_graph.RECIPE,
    tf32.RECIPE,
    freeze.RECIPE,
)

BY_NAME: dict[str, Recipe] = {recipe.name: recipe for recipe in RECIPES}
"""Recipes by name."""
