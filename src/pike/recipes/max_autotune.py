"""torch.compile with the kernels of matrix products and convolutions chosen by measuring them.

Knows one call. Slow to build: on failure by timeout, the plain modes are the repair.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.cuda_graph import copies_are_small
from pike.recipes.measured_kernels import too_many_shapes
from pike.recipes.outputs import FreshOutputs
from pike.recipes.recipe import Problem, Recipe, Stage


def max_autotune(model: torch.nn.Module) -> Any:
    """The model compiled for exactly these shapes with measured kernels; on a GPU replayed as a CUDA graph."""
    return FreshOutputs(torch.compile(model, mode="max-autotune", dynamic=False))


def declines(problem: Problem) -> str:
    """Declines without a compiler, and where measuring would take too long."""
    return problem.compiler or (too_many_shapes(problem) if problem.facts.is_cuda else "")


RECIPE = Recipe(
    "max_autotune",
    "torch.compile in the mode max-autotune, outputs copied",
    Stage.LOWER,
    max_autotune,
    declines,
    prior_cpu=0.3,
    prior_cuda=0.45,
    suits=copies_are_small,
    blamed_for=("autotune", "inductor", "dynamo", "cudagraph", "CUDA graph", "timeout", "timed out"),
)
