"""Every recipe, listed once.

Knows their order, which only breaks ties of stage; foundations come first. A new recipe is one file beside this one
and one line here.
"""

from __future__ import annotations

from pike.recipes import (
    autocast_bf16,
    autocast_half,
    bf16,
    channels_last,
    compile_default,
    compiled_blocks,
    compiled_graph,
    cuda_graph,
    float32_attention,
    fold_batch_norm,
    fold_constants,
    freeze,
    full_float32,
    fuse_linears,
    grouped_products,
    half,
    inductor,
    max_autotune,
    measured_kernels,
    merge_convs,
    narrow_convs,
    narrow_linears,
    one_kernel,
    pool_first,
    prefix_attention,
    real_rotations,
    reduce_overhead,
    relu_attention,
    routed_experts,
    sdpa,
    split_products,
    tf32,
    trace_frozen,
    tuned_kernels,
    winograd2,
    winograd4,
)
from pike.recipes.recipe import Recipe

RECIPES: tuple[Recipe, ...] = (
    routed_experts.RECIPE,
    fold_batch_norm.RECIPE,
    pool_first.RECIPE,
    merge_convs.RECIPE,
    grouped_products.RECIPE,
    narrow_convs.RECIPE,
    winograd2.RECIPE,
    winograd4.RECIPE,
    sdpa.RECIPE,
    prefix_attention.RECIPE,
    float32_attention.RECIPE,
    relu_attention.RECIPE,
    real_rotations.RECIPE,
    fuse_linears.RECIPE,
    half.RECIPE,
    bf16.RECIPE,
    autocast_half.RECIPE,
    autocast_bf16.RECIPE,
    split_products.RECIPE,
    fold_constants.RECIPE,
    channels_last.RECIPE,
    narrow_linears.RECIPE,
    compile_default.RECIPE,
    inductor.RECIPE,
    reduce_overhead.RECIPE,
    compiled_graph.RECIPE,
    compiled_blocks.RECIPE,
    max_autotune.RECIPE,
    trace_frozen.RECIPE,
    cuda_graph.RECIPE,
    one_kernel.RECIPE,
    tf32.RECIPE,
    full_float32.RECIPE,
    freeze.RECIPE,
    tuned_kernels.RECIPE,
    measured_kernels.RECIPE,
)

BY_NAME: dict[str, Recipe] = {recipe.name: recipe for recipe in RECIPES}
"""Recipes by name."""
