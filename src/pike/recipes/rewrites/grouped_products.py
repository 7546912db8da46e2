"""Grouped convolutions with kernel 1 as batched matrix products.

With kernel 1, stride 1 and no padding, each group is a matrix product of its weights and the pixels
of its channels: the same sums. Vendors' libraries have slow kernels for such convolutions in 16
bits, and compilers cannot fuse into them. With few channels a group both wait for memory, so it
matters little that by default a GPU multiplies matrices with all bits of float32. Knows the graph.
Does not touch depthwise convolutions, where a group is one multiplication.
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
from pike.recipes.framework.recipe import Recipe, RecipeStage


def grouped_products(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every grouped convolution with kernel 1 by one batched product."""
    graph = capture_graph(model, args, kwargs)
    for conv in grouped_convs(graph):
        aten = torch.ops.aten
        image, groups = operand(conv, 0), operand(conv, 6)
        batch, channels, *sides = example_of(image).shape
        out = example_of(conv).shape[1]
        pixels = call_before(conv, aten.reshape.default, image, [batch, groups, channels // groups, -1])
        rows = [1, groups, out // groups, channels // groups]
        weight = call_before(conv, aten.reshape.default, operand(conv, 1), rows)
        product = call_before(conv, aten.matmul.default, weight, pixels)
        result = call_before(conv, aten.reshape.default, product, [batch, out, *sides])
        if operand(conv, 2) is not None:
            bias = call_before(conv, aten.reshape.default, operand(conv, 2), [1, out, *[1] * len(sides)])
            result = call_before(conv, aten.add.Tensor, result, bias)
        result.meta.update(conv.meta)
        conv.replace_all_uses_with(result)
    finish_edit(graph)
    return graph


def grouped_convs(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Convolutions with kernel 1, stride 1, no padding and several groups of several channels."""
    return [node for node in nodes_calling(graph, "conv1d", "conv2d") if is_grouped_product(graph, node)]


def is_grouped_product(graph: torch.fx.GraphModule, conv: torch.fx.Node) -> bool:
    """Whether a convolution is a batched matrix product."""
    weight, groups = tensor_at(graph, operand(conv, 1)), operand(conv, 6)
    if weight is None or groups in (None, 1) or example_of(operand(conv, 0)).dim() != weight.dim():
        return False
    stride, padding = operand(conv, 3) or [1], operand(conv, 4) or [0]
    plain = not isinstance(padding, str) and set(stride) == {1} and set(padding) == {0}
    return plain and set(weight.shape[2:]) == {1} and weight.shape[1] > 1 and weight.shape[0] // groups > 1


RECIPE = Recipe(
    "grouped_products",
    "grouped convolutions with kernel 1 as batched matrix products",
    RecipeStage.REWRITE,
    grouped_products,
    lambda problem: problem.lacks(grouped_convs, "no grouped convolution has kernel 1"),
    prior_cuda=0.15,
    blamed_for=("grouped",),
)
