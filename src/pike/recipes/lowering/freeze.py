"""Weights as constants of the compiled code: folded, packed once, and fused with what follows.

Knows inductor's `freezing` option, which must be set while Dynamo traces: passing it to
`torch.compile(options=...)` has no effect. Holds while the model is lowered. The compiled code does
not see weights that change later, so `PreparedModel` prepares again when weights are loaded or
moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._inductor.config

from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


@contextlib.contextmanager
def frozen_weights() -> Iterator[None]:
    """Inductor treats parameters and buffers as constants."""
    with torch._inductor.config.patch(freezing=True):
        yield


def declines(problem: RecipeContext) -> str:
    """Declines without weights, or without a compiler."""
    if next(problem.model.parameters(), None) is None and next(problem.model.buffers(), None) is None:
        return "the model has no weights to freeze"
    return problem.compiler


def suits(problem: RecipeContext) -> float:
    """Packing pays for convolutions; packed linear layers were slower than plain ones on CPUs."""
    return 0.0 if problem.facts.is_cuda or problem.uses("conv2d") else -0.3


RECIPE = Recipe(
    "freeze",
    "weights frozen into the compiled code",
    RecipeStage.SETTING,
    frozen_weights,
    declines,
    needs=frozenset({"compile", "inductor", "reduce_overhead", "max_autotune", "compiled_graph"}),
    prior_cpu=0.2,
    prior_cuda=0.1,
    suits=suits,
    blamed_for=("freezing", "frozen", "mkldnn", "constant"),
)
