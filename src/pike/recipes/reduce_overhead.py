"""torch.compile with CUDA graphs, so that launching kernels costs nothing.

Knows one call and that its outputs must be copied. On a CPU the mode does nothing, so it is not offered there.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.cuda_graph import copies_are_small
from pike.recipes.outputs import FreshOutputs
from pike.recipes.recipe import Problem, Recipe, Stage


def reduce_overhead(model: torch.nn.Module) -> Any:
    """The model compiled for exactly these shapes and replayed as a CUDA graph."""
    return FreshOutputs(torch.compile(model, mode="reduce-overhead", dynamic=False))


def declines(problem: Problem) -> str:
    """Declines without a GPU or Triton."""
    return problem.compiler if problem.facts.is_cuda else "CUDA graphs need an NVIDIA GPU"


RECIPE = Recipe(
    "reduce_overhead",
    "torch.compile in the mode reduce-overhead (CUDA graphs), outputs copied",
    Stage.LOWER,
    reduce_overhead,
    declines,
    prior_cuda=0.45,
    suits=copies_are_small,
    blamed_for=("inductor", "dynamo", "cudagraph", "CUDA graph", "overwritten"),
)
