"""Inductor's kernels chosen by measuring them, recorded as one CUDA graph of our own.

Knows inductor's mode that measures kernels without recording them, and that measuring takes time for every shape of a
matrix product or convolution: with too many of them it declines, because it would not be ready within the judge's
limit. Does not know how a call is recorded (`cuda_graph`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.config

from pike.recipes.compiled_graph import compiled_graph
from pike.recipes.cuda_graph import cannot_record, copies_are_small
from pike.recipes.graph import calls, example_of
from pike.recipes.precision import PRODUCTS
from pike.recipes.recipe import Problem, Recipe, Stage

SECONDS_PER_SHAPE = 4.0
"""What measuring the kernels of one shape takes: the first call of GoogLeNet's module in the mode max-autotune took
57 s on an H200 beside seven other judges, half of it for seven shapes (docs/log.md)."""


def tuned_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model compiled with measured kernels for exactly these shapes, which are replayed as one CUDA graph."""
    with torch._inductor.config.patch(max_autotune=True, coordinate_descent_tuning=True):
        return compiled_graph(model, args, kwargs)


def declines(problem: Problem) -> str:
    """Declines without a GPU or Triton, where the host has to wait, and where measuring would take too long."""
    return cannot_record(problem) or problem.compiler or too_many_shapes(problem)


def too_many_shapes(problem: Problem) -> str:
    """Why measuring would not be over within half of the judge's limit, empty where it would."""
    count = len(shapes_to_measure(problem))
    if count * SECONDS_PER_SHAPE <= problem.options.timeout_seconds / 2:
        return ""
    return f"measuring kernels for {count} shapes would take longer than half of the limit of the judge"


def shapes_to_measure(problem: Problem) -> set[Any]:
    """The distinct matrix products and convolutions of a model."""
    nodes = [node for node in problem.graph.graph.nodes if calls(node, *PRODUCTS)] if problem.graph else []
    return {
        (str(node.target), *(tuple(getattr(example_of(source), "shape", ())) for source in node.all_input_nodes))
        for node in nodes
    }


RECIPE = Recipe(
    "tuned_graph",
    "inductor with measured kernels, replayed as one CUDA graph, outputs copied",
    Stage.LOWER,
    tuned_graph,
    declines,
    prior_cuda=0.85,
    suits=copies_are_small,
    blamed_for=("autotune", "inductor", "dynamo", "capture", "CUDA graph", "cudaError", "timeout", "timed out"),
)
