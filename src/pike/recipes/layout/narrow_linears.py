"""Linear layers with few rows become sums of products, which compilers turn into one kernel each.

Knows the graph. A product of a few rows with a matrix waits for the matrix to be read. A matrix
library picks kernels made for large products, and adds bias and activation by kernels of their own.
Written as a multiplication and a sum, the compiler reads the matrix once at full bandwidth and
fuses the rest. Sums stay in float32. Useless without a compiler, because the products would be
written to memory. Comes after the precision is settled, which would keep sums and their inputs in
float32.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import (
    call_before,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    tensor_at,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage

MOST_ROWS = 8
"""With more rows a matrix product is the better form."""
MOST_PRODUCTS = 1 << 26
"""A layer with more products than this is left alone."""


def narrow_linears(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Write every linear layer with few rows as a sum over products."""
    aten = torch.ops.aten
    graph = capture_graph(model, args, kwargs)
    for layer in few_row_linears(graph):
        rows = call_before(layer, aten.unsqueeze.default, operand(layer, 0), -2)
        products = call_before(layer, aten.mul.Tensor, rows, operand(layer, 1))
        wide = torch.promote_types(example_of(layer).dtype, torch.float32)
        result = call_before(layer, aten.sum.dim_IntList, products, [-1], False, dtype=wide)
        if operand(layer, 2) is not None:
            result = call_before(layer, aten.add.Tensor, result, operand(layer, 2))
        if wide != example_of(layer).dtype:
            result = call_before(layer, aten.to.dtype, result, example_of(layer).dtype)
        result.meta.update(layer.meta)
        layer.replace_all_uses_with(result)
    finish_edit(graph)
    return graph


def few_row_linears(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The linear layers with few rows and a matrix of modest size."""
    found = []
    for layer in nodes_calling(graph, "linear"):
        weight, example = tensor_at(graph, operand(layer, 1)), example_of(operand(layer, 0))
        if weight is None or weight.dim() != 2 or not isinstance(example, torch.Tensor):
            continue
        rows = example.numel() // max(1, example.shape[-1])
        if 0 < rows <= MOST_ROWS and rows * weight.numel() <= MOST_PRODUCTS:
            found.append(layer)
    return found


def declines(problem: RecipeContext) -> str:
    """Declines on CPUs, without a compiler, and where no linear layer has few rows."""
    if not problem.facts.is_cuda:
        return "matrix libraries for CPUs have kernels for few rows"
    return problem.compiler or problem.lacks(few_row_linears, f"no linear layer has at most {MOST_ROWS} rows")


RECIPE = Recipe(
    "narrow_linears",
    "linear layers with few rows as sums of products, fused with what follows",
    RecipeStage.LAYOUT,
    narrow_linears,
    declines,
    needs=frozenset({"compile", "inductor", "reduce_overhead", "max_autotune", "compiled_graph"}),
    prior_cuda=0.15,
    blamed_for=("out of memory",),
)
