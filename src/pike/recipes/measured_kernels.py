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

SECONDS_PER_SHAPE, SECONDS_PER_GROUPED_SHAPE = 12.5, 60.0
"""What measuring the kernels of one shape takes on an H200 beside nine other judges: first calls in the mode
max-autotune took 151 s for ResNet-18's 12 shapes. A minute for a depthwise convolution, on which inductor's own kernels
are slow, is a guess: networks with many of them were not ready within 240 s (benchmarks/trials/h200-x2-2026-11-22)."""

_CHANNELS = 8
"""The libraries' convolutions on matrix units want multiples of so many channels; others they pad, or run slowly."""


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
    nodes = shapes_to_measure(problem).values()
    grouped = sum(_groups(node) > 1 for node in nodes)
    seconds = (len(nodes) - grouped) * SECONDS_PER_SHAPE + grouped * SECONDS_PER_GROUPED_SHAPE
    if seconds <= problem.options.timeout_seconds / 2:
        return ""
    return f"measuring kernels for {len(nodes)} shapes would take longer than half of the limit of the judge"


def shapes_to_measure(problem: Problem) -> dict[Any, torch.fx.Node]:
    """One each of the distinct matrix products and convolutions of a model."""
    nodes = [node for node in problem.graph.graph.nodes if calls(node, *PRODUCTS)] if problem.graph else []
    return {
        (str(node.target), *(tuple(getattr(example_of(source), "shape", ())) for source in node.all_input_nodes)): node
        for node in nodes
    }


def odd_channels(problem: Problem) -> float:
    """What to add to the expected log speedup, a guess: by the share of convolutions whose channels are padded."""
    convs = [node for node in shapes_to_measure(problem).values() if _groups(node) == 1]
    odd = sum(any(size % _CHANNELS for size in example_of(node.all_input_nodes[1]).shape[:2]) for node in convs)
    return 0.4 * odd / max(len(convs), 1)


def _groups(node: torch.fx.Node) -> int:
    """Of a convolution; 0 for anything else."""
    if not calls(node, "conv1d", "conv2d", "conv3d"):
        return 0
    groups: Any = node.kwargs.get("groups", node.args[6] if len(node.args) > 6 else 1)
    return int(groups)


RECIPE = Recipe(
    "measured_kernels",
    "inductor's matrix products and convolutions chosen by measuring",
    Stage.SETTING,
    measured_kernels,
    declines,
    needs=frozenset({"compile", "inductor", "compiled_graph", "reduce_overhead"}),
    prior_cuda=-0.1,
    suits=odd_channels,
    blamed_for=("autotune", "timeout", "timed out"),
)
