"""Experts that a router chooses, run as grouped products.

A model whose host asks how many tokens each expert gets cannot be captured as it is. It can where
that part is captured as grouped products (`routing`), and every other recipe builds on this. Exact
but for the order of sums inside a product.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernel_recipes.routing import capture_experts, is_captured_with_experts, one_by_one
from pike.recipes.kernels.experts_operator import kernel_calls
from pike.recipes.precision.tensor_cores import arithmetic_of, no_kernel

NO_EXPERTS = "no experts whose rows the host counts"


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


def captured(problem: RecipeContext) -> torch.fx.GraphModule:
    """The graph of a model whose host counts the rows of experts.

    Raises:
        RuntimeError: the model cannot be captured that way, or its device does not run the kernel.
    """
    graph = capture_experts(problem.model, problem.args, problem.kwargs)
    if kernel_calls(graph) and no_kernel(problem.facts):
        raise RuntimeError(no_kernel(problem.facts))
    return graph


def declines(problem: RecipeContext) -> str:
    """Declines where no experts ask the host for sizes, or the device does not run the kernel."""
    asks = problem.lacks(lambda graph: is_captured_with_experts(graph) or one_by_one(graph), NO_EXPERTS)
    by_kernel = problem.graph is not None and problem.facts.is_cuda and one_by_one(problem.graph)
    return asks or (no_kernel(problem.facts) if by_kernel else "")


RECIPE = Recipe(
    "routed_experts",
    "experts that a router chooses as grouped products, without asking the host for sizes",
    RecipeStage.REWRITE,
    routed_experts,
    declines,
    foundation=True,
    prior_cpu=0.1,
    prior_cuda=0.7,
    blamed_for=("grouped_mm", "rows of experts", "pike_experts", "grouped_gemm", "OutOfResources"),
    adapt=lambda problem: (arithmetic_of(problem.options.precision),),
    capture=captured,
)
