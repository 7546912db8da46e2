"""Linear layers that read the same input become one, for example query, key and value.

Knows the graph. The rows of the joined weight are the rows of the single ones, so every output
element is the same dot product as before. Does not know what the layers are for: gate and up
projections are joined just the same.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    capture_graph,
    finish_edit,
    nodes_calling,
    operand,
    tensor_at,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage


def fuse_linears(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Join linear layers with a common input into one and split its output."""
    graph = capture_graph(model, args, kwargs)
    for layers in joinable_linears(graph):
        first = layers[0]
        weights = tensors_at(graph, layers, 1)
        joined = [operand(first, 0), add_tensor(graph, "joined_weight", torch.cat(weights), first)]
        if operand(first, 2) is not None:
            joined.append(add_tensor(graph, "joined_bias", torch.cat(tensors_at(graph, layers, 2)), first))
        output = call_before(first, torch.ops.aten.linear.default, *joined)
        widths = [weight.shape[0] for weight in weights]
        parts = call_before(first, torch.ops.aten.split_with_sizes.default, output, widths, -1)
        for index, layer in enumerate(layers):
            part = call_before(first, operator.getitem, parts, index)
            part.meta.update(layer.meta)
            layer.replace_all_uses_with(part)
    finish_edit(graph)
    return graph


def tensors_at(graph: torch.fx.GraphModule, layers: list[torch.fx.Node], index: int) -> list[torch.Tensor]:
    """The weights (1) or biases (2) of linear layers that have them as parameters."""
    found = [tensor_at(graph, operand(layer, index)) for layer in layers]
    return [tensor for tensor in found if tensor is not None]


def joinable_linears(graph: torch.fx.GraphModule) -> list[list[torch.fx.Node]]:
    """Groups of linear layers with the same input, weights of one dtype, and all or none biased."""
    groups: dict[Any, list[torch.fx.Node]] = {}
    for layer in nodes_calling(graph, "linear"):
        weight = tensor_at(graph, operand(layer, 1))
        bias = operand(layer, 2)
        if weight is not None and weight.dim() == 2 and (bias is None or tensor_at(graph, bias) is not None):
            groups.setdefault((operand(layer, 0), weight.dtype, bias is None), []).append(layer)
    return [layers for layers in groups.values() if len(layers) > 1]


RECIPE = Recipe(
    "fuse_linears",
    "linear layers that read the same input (query, key, value) joined into one",
    RecipeStage.REWRITE,
    fuse_linears,
    lambda problem: problem.lacks(joinable_linears, "no two linear layers read the same input"),
    prior_cpu=0.05,
    prior_cuda=0.08,
    blamed_for=("joined_weight", "joined_bias", "split_with_sizes"),
)
