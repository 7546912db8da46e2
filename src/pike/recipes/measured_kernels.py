"""Inductor picks the kernels of matrix products and convolutions by measuring them.

Knows the option of `torch._inductor.config`, and that measuring takes time for every shape: with too many of them it
declines, because the candidate would not be ready within the judge's limit. Holds while the model is lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.config

from pike.recipes.graph import calls, example_of
from pike.recipes.precision import PRODUCTS
from pike.recipes.recipe import Problem, Recipe, Stage

SECONDS_PER_SHAPE = 4.0
"""A guess of what measuring the kernels of one shape takes: first calls in the mode max-autotune took 30 s for three
shapes and 57 s for GoogLeNet's module on an H200 beside other judges (benchmarks/trials)."""


@contextlib.contextmanager
def measured_kernels() -> Iterator[None]:
    """Inductor measures its own kernels against those of the libraries and takes the fastest."""
    with torch._inductor.config.patch(max_autotune=True):
        yield


def declines(problem: Problem) -> str:
    """Declines without a GPU or Triton, and where measuring would take too long."""
    if not problem.facts.is_cuda:
        return "matrix libraries for CPUs have one kernel for each shape"
    return problem.compiler or too_many_shapes(problem)


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
    "measured_kernels",
    "inductor's matrix products and convolutions chosen by measuring",
    Stage.SETTING,
    measured_kernels,
    declines,
    needs=frozenset({"compile", "inductor", "compiled_graph", "reduce_overhead"}),
    prior_cuda=-0.02,
    blamed_for=("autotune", "timeout", "timed out"),
)
