"""Inductor's kernels recorded as one CUDA graph of our own.

Knows that inductor's own CUDA graphs (mode reduce-overhead) check and copy more at every call than one recorded call
needs, and that a graph that was captured already need not be traced again. Does not know how a call is recorded
(`cuda_graph`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.cuda_graph import CudaGraph, cannot_record, copies_are_small
from pike.recipes.inductor import inductor
from pike.recipes.recipe import Problem, Recipe, Stage


def compiled_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model compiled for exactly these shapes; its kernels are replayed as one CUDA graph."""
    try:
        compiled = inductor(model, args, kwargs)
    except Exception:  # what cannot be captured as a whole is compiled in parts
        compiled = torch.compile(model, dynamic=False)
    return CudaGraph(compiled, args, kwargs)


def declines(problem: Problem) -> str:
    """Declines without a GPU or Triton, and where the host has to wait for values."""
    return cannot_record(problem) or problem.compiler


RECIPE = Recipe(
    "compiled_graph",
    "inductor's kernels, replayed as one CUDA graph, outputs copied",
    Stage.LOWER,
    compiled_graph,
    declines,
    prior_cuda=0.9,
    suits=copies_are_small,
    blamed_for=("inductor", "dynamo", "capture", "capturing", "CUDA graph", "cudaError"),
)
