"""Large linear layers in float32 as TensorFloat-32 products of numbers split in two.

A GPU multiplies TensorFloat-32 matrices several times as fast as float32 ones, with 11 bits of each
factor. A float32 number is the sum of two such numbers, but for its last bit or two. A product of
two such sums is three products: of the leading parts, and of each leading part with the other's
rest. The fourth is smaller than what float32 rounds away. Written side by side they are one product
with three times as many columns and one float32 accumulator. Ootomo and Yokota 2022
(arXiv:2203.03341) measure what is lost when tensor cores accumulate. Knows the graph. Does not
touch products of two activations, nor layers too small to be bound by arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.capture.graph import (
    add_tensor,
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
from pike.recipes.kernels.operator import define_operator
from pike.recipes.precision.tensor_cores import no_tf32
from pike.recipes.precision.tf32 import tf32_products

LEAST_PRODUCTS = 1 << 32
"""With fewer multiplications, splitting costs more memory traffic than the products gain."""
LEAST_SIZE = 64
"""Layers with fewer rows, inputs or outputs than this do not fill tensor cores."""
DROPPED_BITS = 13
"""Bits of a float32 number that TensorFloat-32 does not have."""
LONGEST_SUM = 192
"""Tensor cores truncate sums instead of rounding them, so errors grow with the length of a sum.
Longer sums of leading parts go on in another matrix product, whose result is added with
rounding. At this length the error is that of a float32 product of 768 columns
(benchmarks/split_products.py on an H200)."""


def split_products(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every large float32 linear layer by a TensorFloat-32 product of split numbers."""
    graph = capture_graph(model, args, kwargs)
    for layer in large_linears(graph):
        weight = tensor_at(graph, operand(layer, 1))
        assert weight is not None
        lead = tf32_rounded(weight)
        rest = tf32_rounded(weight - lead)
        stored = add_tensor(graph, "split_weight", torch.cat([lead, rest, lead], dim=1), layer)
        pieces = split_before(layer, operand(layer, 0))
        result = call_before(layer, split_operator(), pieces, stored, operand(layer, 2))
        result.meta.update(layer.meta)
        layer.replace_all_uses_with(result)
    finish_edit(graph)
    return graph


def tf32_rounded(value: torch.Tensor) -> torch.Tensor:
    """The nearest TensorFloat-32 numbers, as float32."""
    bits = value.contiguous().view(torch.int32) + (1 << (DROPPED_BITS - 1))
    return (bits & -(1 << DROPPED_BITS)).view(torch.float32)


def split_before(layer: torch.fx.Node, source: torch.fx.Node) -> torch.fx.Node:
    """A node with the rest, the leading part and the leading part again, along the last axis."""
    lead = rounded_before(layer, source)
    rest = rounded_before(layer, call_before(layer, torch.ops.aten.sub.Tensor, source, lead))
    return call_before(layer, torch.ops.aten.cat.default, [rest, lead, lead], -1)


def rounded_before(layer: torch.fx.Node, source: torch.fx.Node) -> torch.fx.Node:
    """A node with the `tf32_rounded` value of another."""
    aten = torch.ops.aten
    bits = call_before(layer, aten.view.dtype, source, torch.int32)
    bits = call_before(layer, aten.add.Tensor, bits, 1 << (DROPPED_BITS - 1))
    bits = call_before(layer, aten.bitwise_and.Scalar, bits, -(1 << DROPPED_BITS))
    return call_before(layer, aten.view.dtype, bits, torch.float32)


def split_linear(pieces: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The linear layer of split numbers, in TensorFloat-32; small terms are added first.

    Args:
        pieces: (..., 3 * inputs), the rest of the inputs, their leading part twice.
        weight: (outputs, 3 * inputs), the leading part, the rest, the leading part.
        bias: (outputs,) or None.
    """
    rows = pieces.flatten(0, -2)
    columns = rows.shape[1]
    with tf32_products():
        stop = min(columns, columns // 3 * 2 + LONGEST_SUM)  # small terms do not count
        first, part = rows[:, :stop], weight[:, :stop].t()
        result = torch.mm(first, part) if bias is None else torch.addmm(bias, first, part)
        for start in range(stop, columns, LONGEST_SUM):
            stop = min(columns, start + LONGEST_SUM)
            result.addmm_(rows[:, start:stop], weight[:, start:stop].t())
    return result.view(*pieces.shape[:-1], weight.shape[0])


def split_linear_shape(pieces: torch.Tensor, weight: torch.Tensor, _bias: torch.Tensor | None) -> torch.Tensor:
    """An empty result of `split_linear`."""
    return pieces.new_empty(*pieces.shape[:-1], weight.shape[0])


def split_operator() -> Any:
    """`split_linear` as an operator, so that compilers leave its setting alone too."""
    schema = "(Tensor pieces, Tensor weight, Tensor? bias) -> Tensor"
    return define_operator("pike_split::linear", schema, split_linear, split_linear_shape)


def large_linears(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The float32 linear layers with stored weights that are bound by arithmetic."""
    return [node for node in nodes_calling(graph, "linear") if is_large(graph, node)]


def is_large(graph: torch.fx.GraphModule, layer: torch.fx.Node) -> bool:
    """Whether a layer has enough multiplications, rows, inputs and outputs for tensor cores."""
    weight, example = tensor_at(graph, operand(layer, 1)), example_of(operand(layer, 0))
    if weight is None or weight.dim() != 2 or weight.dtype != torch.float32 or example.dtype != torch.float32:
        return False
    rows = example.numel() // max(1, example.shape[-1])
    return bool(min(rows, *weight.shape) >= LEAST_SIZE and rows * weight.numel() >= LEAST_PRODUCTS)


def declines(problem: RecipeContext) -> str:
    """Declines without TensorFloat-32 units or a large layer, and where fewer bits are allowed."""
    if problem.options.precision is not Precision.SAME:
        return no_tf32(problem.facts) or "fewer bits are allowed (precision is not same)"
    return no_tf32(problem.facts) or problem.lacks(large_linears, "no float32 linear layer is bound by arithmetic")


def share_of_layers(problem: RecipeContext) -> float:
    """The expected log speedup: less where launching many small kernels takes the time."""
    assert problem.graph is not None
    return 0.4 * min(1.0, 20.0 * len(large_linears(problem.graph)) / problem.operators)


RECIPE = Recipe(
    "split_products",
    "large float32 linear layers as TensorFloat-32 products of numbers split in two",
    RecipeStage.PRECISION,
    split_products,
    declines,
    suits=share_of_layers,
    blamed_for=("pike_split", "split_weight"),
)
