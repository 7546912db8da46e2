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

from pike.recipes.capture.constants import varying_nodes
from pike.recipes.capture.graph import calls, example_of, operand
from pike.recipes.capture.memory import example_memory, returned_memory
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


@contextlib.contextmanager
def frozen_weights() -> Iterator[None]:
    """Inductor treats parameters and buffers as constants."""
    with torch._inductor.config.patch(freezing=True):
        yield


def declines(problem: RecipeContext) -> str:
    """Declines without weights or a compiler, and where the code would return the same constant twice."""
    if next(problem.model.parameters(), None) is None and next(problem.model.buffers(), None) is None:
        return "the model has no weights to freeze"
    if problem.graph and returns_constants(problem.graph):
        return "the model returns what depends on weights only, which frozen code would return again at each call"
    if problem.graph and any(map(is_plain_copy, returned_memory(problem.graph))):
        return "the model returns a copy made by a cast, which frozen code leaves out"
    return problem.compiler


def returns_constants(graph: torch.fx.GraphModule) -> bool:
    """Whether an output may lie in the memory of something that is computed from weights only.

    A caller who wrote into it would change what frozen code returns next.
    """
    varying = varying_nodes(graph)
    return any(node.op == "call_function" and node not in varying for node in returned_memory(graph))


def is_plain_copy(node: torch.fx.Node) -> bool:
    """Whether a node casts to the dtype that its values had before, into other memory."""
    origin = node
    while calls(origin, "to", "_to_copy"):
        origin = operand(origin, 0)
    apart = origin is not node and not example_memory(origin) & example_memory(node)
    return apart and example_of(origin).dtype == example_of(node).dtype


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
