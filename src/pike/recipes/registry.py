"""Every recipe, listed once.

Knows their order, which only breaks ties of stage; foundations come first. A new recipe is one file
beside this one and one line here.
"""

from __future__ import annotations

from pike.recipes.framework.recipe import Recipe
from pike.recipes.kernel_recipes import (
    float32_attention,
    narrow_convs,
    one_kernel,
    relu_attention,
    routed_experts,
    scan,
    winograd,
)
from pike.recipes.layout import channels_last, fold_constants, narrow_linears, whole_recurrences
from pike.recipes.lowering import (
    compiled_blocks,
    compiled_graph,
    cuda_graph,
    freeze,
    inductor,
    measured_kernels,
    torch_compile,
    trace_frozen,
    tuned_kernels,
)
from pike.recipes.precision import autocast, full_float32, sixteen_bits, split_products, tf32
from pike.recipes.rewrites import (
    few_queries,
    fold_batch_norm,
    fuse_linears,
    grouped_products,
    merge_convs,
    pool_first,
    prefix_attention,
    real_rotations,
    sdpa,
    unread_rows,
    upsampled_convs,
)

RECIPES: tuple[Recipe, ...] = (
    routed_experts.RECIPE,
    fold_batch_norm.RECIPE,
    pool_first.RECIPE,
    merge_convs.RECIPE,
    upsampled_convs.RECIPE,
    unread_rows.RECIPE,
    grouped_products.RECIPE,
    narrow_convs.RECIPE,
    winograd.WINOGRAD2_RECIPE,
    winograd.WINOGRAD4_RECIPE,
    sdpa.RECIPE,
    prefix_attention.RECIPE,
    few_queries.RECIPE,
    float32_attention.RECIPE,
    relu_attention.RECIPE,
    real_rotations.RECIPE,
    scan.RECIPE,
    fuse_linears.RECIPE,
    sixteen_bits.HALF_RECIPE,
    sixteen_bits.BF16_RECIPE,
    autocast.AUTOCAST_HALF_RECIPE,
    autocast.AUTOCAST_BF16_RECIPE,
    split_products.RECIPE,
    fold_constants.RECIPE,
    channels_last.RECIPE,
    narrow_linears.RECIPE,
    whole_recurrences.RECIPE,
    torch_compile.COMPILE_RECIPE,
    inductor.RECIPE,
    torch_compile.REDUCE_OVERHEAD_RECIPE,
    compiled_graph.RECIPE,
    compiled_blocks.RECIPE,
    torch_compile.MAX_AUTOTUNE_RECIPE,
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
