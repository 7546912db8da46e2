"""Experts that a router chooses, run as grouped products.

Knows that a model whose host asks how many tokens each expert gets cannot be captured, and that it can where this part
of it is captured as grouped products (`routing`): then every other recipe builds on this one. Exact but for the order
of sums inside a product.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.experts_operator import kernel_calls
from pike.recipes.recipe import Problem, Recipe, Stage
from pike.recipes.routing import capture_experts, is_captured_with_experts
from pike.recipes.tensor_cores import arithmetic_of


def routed_experts(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("bf16x6",)
) -> torch.fx.GraphModule:
    """The model with all its experts' rows in grouped products, for any numbers of rows.

    Args:
        model: the model.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        keep: the arithmetic of products of float32 numbers, one name (`experts_kernel`).
    """
    graph = capture_experts(model, args, kwargs)
    for call in kernel_calls(graph):
        call.update_arg(len(call.args) - 1, keep[0])
    graph.recompile()
    return graph


def declines(problem: Problem) -> str:
    """Declines what can be captured without it, and what cannot be captured with it either."""
    if problem.graph is None:
        return problem.captured[1]
    return "" if is_captured_with_experts(problem.graph) else "no experts whose rows the host counts"


RECIPE = Recipe(
    "routed_experts",
    "experts that a router chooses as grouped products, without asking the host for sizes",
    Stage.REWRITE,
    routed_experts,
    declines,
    foundation=True,
    prior_cpu=0.1,
    prior_cuda=0.7,
    blamed_for=("grouped_mm", "rows of experts", "pike_experts", "multiply_block", "OutOfResources"),
    adapt=lambda problem: (arithmetic_of(problem.options.precision),),
)
