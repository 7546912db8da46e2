"""torch.compile in three of its modes.

Knows the modes, and that a mode which replays CUDA graphs overwrites its outputs at the next call,
so that they are copied. Does not know the options of inductor (`freeze` and `measured_kernels` are
recipes of their own).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pike.recipes.capture.graph import keep_checks
from pike.recipes.framework.context import RecipeContext, seconds_to_compile
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.lowering.cuda_graph import copies_are_small
from pike.recipes.lowering.measured_kernels import measuring_seconds, too_many_shapes


class FreshOutputs:
    """Calls a function that overwrites its outputs at the next call, and returns copies of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's outputs in memory of their own."""
        outputs = self.function(*args, **kwargs)
        if isinstance(outputs, torch.Tensor):
            return outputs.clone()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)


def compile_default(model: torch.nn.Module) -> Any:
    """The model compiled for exactly these shapes."""
    keep_checks()
    return torch.compile(model, dynamic=False)


def reduce_overhead(model: torch.nn.Module) -> Any:
    """The model compiled for exactly these shapes and replayed as a CUDA graph."""
    keep_checks()
    return FreshOutputs(torch.compile(model, mode="reduce-overhead", dynamic=False))


def max_autotune(model: torch.nn.Module) -> Any:
    """The model compiled with measured kernels; on a GPU replayed as a CUDA graph."""
    keep_checks()
    return FreshOutputs(torch.compile(model, mode="max-autotune", dynamic=False))


def no_max_autotune(problem: RecipeContext) -> str:
    """Declines without a compiler, and where measuring would take too long."""
    return problem.compiler or (too_many_shapes(problem) if problem.facts.is_cuda else "")


def seconds_to_tune(problem: RecipeContext) -> float:
    """Seconds to compile the model and, on a GPU, to measure kernels for its shapes."""
    return seconds_to_compile(problem) + (measuring_seconds(problem) if problem.facts.is_cuda else 0.0)


COMPILE_RECIPE = Recipe(
    "compile",
    "torch.compile",
    RecipeStage.LOWER,
    compile_default,
    lambda problem: problem.compiler,
    prior_cpu=0.4,
    prior_cuda=0.3,
    blamed_for=("inductor", "dynamo", "torch.compile", "CppCompileError"),
    seconds=seconds_to_compile,
)

REDUCE_OVERHEAD_RECIPE = Recipe(
    "reduce_overhead",
    "torch.compile in the mode reduce-overhead (CUDA graphs), outputs copied",
    RecipeStage.LOWER,
    reduce_overhead,
    lambda problem: problem.compiler if problem.facts.is_cuda else "CUDA graphs need an NVIDIA GPU",
    prior_cuda=0.45,
    suits=copies_are_small,
    blamed_for=("inductor", "dynamo", "cudagraph", "CUDA graph", "overwritten"),
    seconds=seconds_to_compile,
)

MAX_AUTOTUNE_RECIPE = Recipe(
    "max_autotune",
    "torch.compile in the mode max-autotune, outputs copied",
    RecipeStage.LOWER,
    max_autotune,
    no_max_autotune,
    prior_cpu=0.3,
    prior_cuda=0.45,
    suits=copies_are_small,
    blamed_for=("autotune", "inductor", "dynamo", "cudagraph", "CUDA graph", "timeout", "timed out"),
    seconds=seconds_to_tune,
    tunes=True,
)
