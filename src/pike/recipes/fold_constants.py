"""What depends on weights only is computed once: position biases, masks, casts of weights.

Knows the graph. Runs the very operators that the model would run, so not a bit changes. Does not fold what is larger
than `MOST_BYTES`, which would cost more memory traffic than it saves.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.graph import add_tensor, capture_graph, constant_value, example_of, finish_edit, varying_nodes
from pike.recipes.recipe import Problem, Recipe, Stage, needs_graph

MOST_BYTES = 1 << 28
"""Results larger than this are left to be computed again."""


def fold_constants(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every operator on weights only, whose result an input-dependent operator reads, by its result."""
    graph = capture_graph(model, args, kwargs)
    varying = varying_nodes(graph)
    for node in constant_results(graph):
        value = constant_value(graph, node, varying)
        stored = add_tensor(graph, "constant", value, node)
        stored.meta.update(node.meta)
        node.replace_all_uses_with(stored)
    finish_edit(graph)
    return graph


def constant_results(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Operators on weights only that something input-dependent reads, and whose results are tensors of modest size."""
    varying = varying_nodes(graph)
    found = []
    for node in graph.graph.nodes:
        example = example_of(node)
        if node.op != "call_function" or node in varying or not isinstance(example, torch.Tensor):
            continue
        small = example.numel() * example.element_size() <= MOST_BYTES
        if small and any(user in varying for user in node.users):
            found.append(node)
    return found


def declines(problem: Problem) -> str:
    """Declines where nothing depends on weights only; under autocast the casts of weights always do."""
    if problem.graph is None:
        return needs_graph(problem)
    if constant_results(problem.graph) or problem.options.precision is Precision.HALF:
        return ""
    return "nothing in the model depends on weights only"


RECIPE = Recipe(
    "fold_constants",
    "what depends on weights only computed once",
    Stage.LAYOUT,
    fold_constants,
    declines,
    prior_cpu=0.03,
    prior_cuda=0.05,
    blamed_for=("constant_",),
)
