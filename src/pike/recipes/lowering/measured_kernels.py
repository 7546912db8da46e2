"""Inductor picks the kernels of matrix products and convolutions by measuring them.

Knows the option of `torch._inductor.config`, and that measuring takes time for every shape. With
too many shapes it declines, because the candidate would not be ready within the judge's limit.
Holds while the model is lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.config

from pike.recipes.capture.graph import calls, example_of, nodes_calling
from pike.recipes.capture.work import PRODUCTS, work
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage

SECONDS_PER_SHAPE, SECONDS_PER_GROUPED_SHAPE = 12.5, 60.0
"""Seconds to measure the kernels of one shape on an H200 beside nine other judges. In the mode
max-autotune, first calls took 151 s for ResNet-18's 12 shapes. A minute for a depthwise
convolution is a guess: networks with many of them were not ready within 240 s
(benchmarks/trials/h200-x2-2026-11-22)."""

_CHANNELS = 8
"""Libraries pad channels to multiples of this for convolutions on matrix units, or run slowly."""


@contextlib.contextmanager
def measured_kernels() -> Iterator[None]:
    """Inductor measures its own kernels against those of the libraries and takes the fastest."""
    with torch._inductor.config.patch(max_autotune=True):
        yield


def declines(problem: RecipeContext) -> str:
    """Declines without a GPU or Triton, and where measuring would take too long."""
    if not problem.facts.is_cuda:
        return "matrix libraries for CPUs have one kernel for each shape"
    return problem.compiler or too_many_shapes(problem)


def too_many_shapes(problem: RecipeContext) -> str:
    """Why measuring would take longer than half of the judge's limit, empty otherwise."""
    if measuring_seconds(problem) <= problem.options.timeout_seconds / 2:
        return ""
    count = len(shapes_to_measure(problem))
    return f"measuring kernels for {count} shapes would take longer than half of the limit of the judge"


def measuring_seconds(problem: RecipeContext) -> float:
    """Seconds to measure the kernels of every shape."""
    nodes = shapes_to_measure(problem).values()
    grouped = sum(_groups(node) > 1 for node in nodes)
    return (len(nodes) - grouped) * SECONDS_PER_SHAPE + grouped * SECONDS_PER_GROUPED_SHAPE


def shapes_to_measure(problem: RecipeContext) -> dict[Any, torch.fx.Node]:
    """One each of the distinct matrix products and convolutions of a model."""
    nodes = nodes_calling(problem.graph, *PRODUCTS) if problem.graph else []
    return {
        (str(node.target), *(tuple(getattr(example_of(source), "shape", ())) for source in node.all_input_nodes)): node
        for node in nodes
    }


def odd_channels(problem: RecipeContext) -> float:
    """What to add to the expectation, by the work of convolutions with padded channels."""
    products = [node for node in problem.nodes if calls(node, *PRODUCTS)]
    odd = [node for node in products if _groups(node) == 1 and _is_padded(node)]
    return 0.4 * sum(map(work, odd)) / max(sum(map(work, products)), 1)


def _is_padded(convolution: torch.fx.Node) -> bool:
    return any(size % _CHANNELS for size in example_of(convolution.all_input_nodes[1]).shape[:2])


def _groups(node: torch.fx.Node) -> int:
    """The groups of a convolution; 0 for anything else."""
    if not calls(node, "conv1d", "conv2d", "conv3d"):
        return 0
    groups: Any = node.kwargs.get("groups", node.args[6] if len(node.args) > 6 else 1)
    return int(groups)


RECIPE = Recipe(
    "measured_kernels",
    "inductor's matrix products and convolutions chosen by measuring",
    RecipeStage.SETTING,
    measured_kernels,
    declines,
    needs=frozenset({"compile", "inductor", "compiled_graph", "reduce_overhead"}),
    prior_cuda=-0.1,
    suits=odd_channels,
    blamed_for=("autotune", "timeout", "timed out"),
    seconds=measuring_seconds,
    tunes=True,
)
