"""Inductor's kernels recorded as one CUDA graph of our own.

Inductor's own CUDA graphs (mode reduce-overhead) check and copy more at every call than one
recorded call needs. A graph that is captured already need not be traced again. Does not know how a
call is recorded (`cuda_graph`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import keep_checks
from pike.recipes.framework.context import RecipeContext, seconds_to_compile
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.lowering.cuda_graph import CudaGraph, cannot_record, copies_are_small, has_graph
from pike.recipes.lowering.inductor import inductor


def compiled_graph(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("graph",)
) -> Any:
    """The model compiled for exactly these shapes; its kernels are replayed as one CUDA graph.

    Args:
        model: the model.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        keep: empty for a model whose captured graph does not stand for it.
    """
    keep_checks()
    try:
        compiled = inductor(model, args, kwargs) if keep else torch.compile(model, dynamic=False)
    except Exception:  # what cannot be captured as a whole is compiled in parts
        compiled = torch.compile(model, dynamic=False)
    return CudaGraph(compiled, args, kwargs)


def declines(problem: RecipeContext) -> str:
    """Declines without a GPU or Triton, and where the host has to wait for values."""
    return cannot_record(problem) or problem.compiler


RECIPE = Recipe(
    "compiled_graph",
    "inductor's kernels, replayed as one CUDA graph, outputs copied",
    RecipeStage.LOWER,
    compiled_graph,
    declines,
    records=True,
    prior_cuda=0.9,
    suits=copies_are_small,
    blamed_for=("inductor", "dynamo", "capture", "capturing", "CUDA graph", "cudaError"),
    adapt=has_graph,
    seconds=seconds_to_compile,
)
