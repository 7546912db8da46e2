"""Batch norms that follow a convolution or a linear layer become part of its weights.

In eval mode a batch norm is `scale * x + shift` per channel with constants. So `scale` goes into
the weights of the layer before it and `shift` into its bias (Jacob et al. 2018, arXiv:1712.05877,
section 3.2). The constants are computed in float64 and rounded once. Knows the graph; does not know
what runs it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from pike.recipes.capture.graph import (
    add_tensor,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    tensor_at,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage


def fold_batch_norm(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Fold each batch norm that alone reads a convolution or linear layer."""
    graph = capture_graph(model, args, kwargs)
    for norm, layer in foldable_norms(graph):
        weight, shift = folded_weights(graph, norm, layer)
        new_weight = add_tensor(graph, "folded_weight", weight, layer)
        new_bias = add_tensor(graph, "folded_bias", shift, layer)
        layer.args = (layer.args[0], new_weight, new_bias, *layer.args[3:])
        results = (
            [norm] if calls(norm, "batch_norm") else [user for user in norm.users if user.target is operator.getitem]
        )
        for result in results:
            result.replace_all_uses_with(layer)
    finish_edit(graph)
    return graph


def foldable_norms(graph: torch.fx.GraphModule) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """Pairs of a batch norm with constant statistics and the layer it can be folded into."""
    pairs = []
    for norm in nodes_calling(graph, "batch_norm", "_native_batch_norm_legit_no_training"):
        layer = operand(norm, 0)
        plain = calls(layer, "conv1d", "conv2d", "conv3d") or (calls(layer, "linear") and example_of(layer).dim() == 2)
        if not plain or len(layer.users) > 1 or tensor_at(graph, operand(layer, 1)) is None:
            continue
        if calls(norm, "batch_norm") and operand(norm, 5):
            continue
        if (
            all(value is None or tensor_at(graph, value) is not None for value in norm.args[1:5])
            and operand(norm, 3) is not None
        ):
            pairs.append((norm, layer))
    return pairs


def folded_weights(
    graph: torch.fx.GraphModule, norm: torch.fx.Node, layer: torch.fx.Node
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the layer with the batch norm inside, in the layer's own dtype."""
    weight = tensor_at(graph, operand(layer, 1))
    assert weight is not None
    tensors = [tensor_at(graph, value) for value in (operand(layer, 2), *norm.args[1:5])]
    bias, gain, offset, mean, variance = (None if value is None else value.double() for value in tensors)
    assert mean is not None and variance is not None
    epsilon = operand(norm, 7) if calls(norm, "batch_norm") else operand(norm, 6)
    scale = torch.rsqrt(variance + epsilon)
    if gain is not None:
        scale = scale * gain
    shift = ((0 if bias is None else bias) - mean) * scale
    if offset is not None:
        shift = shift + offset
    scaled = weight.double() * scale.reshape(-1, *[1] * (weight.dim() - 1))
    return scaled.to(weight.dtype), shift.to(weight.dtype)


RECIPE = Recipe(
    "fold_batch_norm",
    "batch norms folded into the layers before them",
    RecipeStage.REWRITE,
    fold_batch_norm,
    lambda problem: problem.lacks(foldable_norms, "no batch norm follows a convolution or linear layer"),
    prior_cpu=0.15,
    prior_cuda=0.1,
    blamed_for=("folded_weight", "folded_bias", "batch_norm"),
)
