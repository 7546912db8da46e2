"""Values that depend on weights only are computed once: position biases, masks, casts.

Knows the graph. Runs the very operators that the model would run, so not a bit changes. Does not
fold what is larger than `MOST_CONSTANT_BYTES`, which would cost more memory traffic than it saves.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.capture.constants import constant_operators, constant_value, varying_nodes
from pike.recipes.capture.graph import add_tensor, call_before, capture_graph, finish_edit
from pike.recipes.capture.memory import memory_behind, returned_memory
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


def fold_constants(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace operators on weights only by their results where others read those.

    What the model returns is a copy of the stored result, which a caller may change.
    """
    graph = capture_graph(model, args, kwargs)
    varying, given_away = varying_nodes(graph), returned_memory(graph)
    for node in constant_results(graph):
        value = constant_value(graph, node, varying)
        stored = add_tensor(graph, "constant", value, node)
        if node in given_away:
            stored = call_before(node, torch.ops.aten.clone.default, stored)
        stored.meta.update(node.meta)
        node.replace_all_uses_with(stored)
    finish_edit(graph)
    return graph


def constant_results(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Operators on weights only with results of modest size that something varying reads.

    Not those that may return a view of a weight: the caller gets the weight's own memory.
    """
    constant, varying = constant_operators(graph), varying_nodes(graph)
    read = [node for node in graph.graph.nodes if node in constant and any(user in varying for user in node.users)]
    given_away = returned_memory(graph)
    return [node for node in read if node not in given_away or not views_weight(node)]


def views_weight(node: torch.fx.Node) -> bool:
    """Whether a node may be a weight itself or a view of one."""
    return any(one.op == "get_attr" for one in memory_behind([node]))


def declines(problem: RecipeContext) -> str:
    """Declines where nothing depends on weights only; in 16 bits the casts of weights always do."""
    if problem.no_graph or problem.options.precision is Precision.HALF:
        return problem.no_graph
    return problem.lacks(constant_results, "nothing in the model depends on weights only")


RECIPE = Recipe(
    "fold_constants",
    "what depends on weights only computed once",
    RecipeStage.LAYOUT,
    fold_constants,
    declines,
    prior_cpu=0.03,
    prior_cuda=0.05,
    blamed_for=("constant_",),
)
