"""Inductor's generated kernels tuned further, and 1 x 1 convolutions as matrix products.

Knows options of `torch._inductor.config`; those that the installed version does not have are left
out. Holds while the model is lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._inductor.config

from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


@contextlib.contextmanager
def tuned_kernels() -> Iterator[None]:
    """Inductor tunes each kernel's configuration and makes 1 x 1 convolutions matrix products."""
    wanted = {"coordinate_descent_tuning": True, "conv_1x1_as_mm": True, "shape_padding": True}
    config = torch._inductor.config
    with config.patch({name: value for name, value in wanted.items() if hasattr(config, name)}):
        yield


def declines(problem: RecipeContext) -> str:
    """Declines without a GPU or Triton: only Triton kernels have such configurations."""
    return problem.compiler if problem.facts.is_cuda else "only kernels for GPUs have configurations to tune"


RECIPE = Recipe(
    "tuned_kernels",
    "inductor's kernels tuned by coordinate descent",
    RecipeStage.SETTING,
    tuned_kernels,
    declines,
    needs=frozenset({"compile", "inductor", "compiled_graph", "reduce_overhead"}),
    prior_cuda=-0.05,
    blamed_for=("coordinate_descent", "autotune", "timeout", "timed out"),
    seconds=lambda problem: 2.0 * problem.compiling_seconds,
    tunes=True,
)
