"""Convolutions that read the same input become one, which reads it once.

Knows the graph. The joined convolution has the filters of the single ones, smaller ones in the
middle of zeros. Every output is the same sum of products. Often all results go through one
activation into a concatenation, in order (SqueezeNet's fire module, arXiv:1602.07360). Then both
act on the joined result and the copy is gone. Other readers read slices.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.nn import functional

from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    finish_edit,
    nodes_calling,
    operand,
    sole_user,
    tensor_at,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage

FEW_CHANNELS = 16
"""Up to this many input channels, smaller filters are filled up with zeros: memory is the limit."""


def merge_convs(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Join convolutions with a common input, and split the output where it is not concatenated."""
    graph = capture_graph(model, args, kwargs)
    for convs in mergeable_convs(graph):
        first = convs[0]
        joined = joined_conv(graph, convs)
        if not keep_whole(convs, joined):
            widths = [conv_weight(graph, conv).shape[0] for conv in convs]
            parts = call_before(first, torch.ops.aten.split_with_sizes.default, joined, widths, 1)
            for index, conv in enumerate(convs):
                part = call_before(first, operator.getitem, parts, index)
                part.meta.update(conv.meta)
                conv.replace_all_uses_with(part)
    finish_edit(graph)
    return graph


def joined_conv(graph: torch.fx.GraphModule, convs: list[torch.fx.Node]) -> torch.fx.Node:
    """One convolution with the filters of all, before the first of them."""
    first = convs[0]
    weights = [conv_weight(graph, conv) for conv in convs]
    size = max(weight.shape[2] for weight in weights)
    grown = [functional.pad(weight, [(size - weight.shape[2]) // 2] * 4) for weight in weights]
    largest = convs[[weight.shape[2] for weight in weights].index(size)]
    inputs = [operand(first, 0), add_tensor(graph, "merged_weight", torch.cat(grown), first), None]
    biases = [tensor_at(graph, operand(conv, 2)) for conv in convs]
    if any(bias is not None for bias in biases):
        pairs = zip(weights, biases, strict=True)
        filled = [weight.new_zeros(weight.shape[0]) if bias is None else bias for weight, bias in pairs]
        inputs[2] = add_tensor(graph, "merged_bias", torch.cat(filled), first)
    return call_before(first, torch.ops.aten.conv2d.default, *inputs, *largest.args[3:])


def keep_whole(convs: list[torch.fx.Node], joined: torch.fx.Node) -> bool:
    """Put the joined result in place of results that are concatenated in order; False if not."""
    followers = [(conv, sole_user(conv)) for conv in convs]
    ends = [user if user and calls(user, "relu") else conv for conv, user in followers]
    joint = sole_user(ends[0])
    activated = [end is not conv for end, conv in zip(ends, convs, strict=True)]
    if joint is None or not calls(joint, "cat") or operand(joint, 1) != 1 or len(set(activated)) > 1:
        return False
    together: list[Any] = list(operand(joint, 0))
    start = together.index(ends[0])
    if any(sole_user(end) is not joint for end in ends) or together[start : start + len(ends)] != ends:
        return False
    whole = call_before(joint, torch.ops.aten.relu.default, joined) if activated[0] else joined
    together[start : start + len(ends)] = [whole]
    if len(together) > 1:
        joint.args = (together, *joint.args[1:])
    else:
        whole.meta.update(joint.meta)
        joint.replace_all_uses_with(whole)
    return True


def conv_weight(graph: torch.fx.GraphModule, conv: torch.fx.Node) -> torch.Tensor:
    """The filters of a convolution that has them as a parameter."""
    weight = tensor_at(graph, operand(conv, 1))
    assert weight is not None
    return weight


def mergeable_convs(graph: torch.fx.GraphModule) -> list[list[torch.fx.Node]]:
    """Groups of two or more convolutions that can be one, in the order of the graph."""
    groups: dict[Any, list[torch.fx.Node]] = {}
    for conv in nodes_calling(graph, "conv2d"):
        key = merging_key(graph, conv)
        if key is not None:
            groups.setdefault(key, []).append(conv)
    return [convs for convs in groups.values() if len(convs) > 1]


def merging_key(graph: torch.fx.GraphModule, conv: torch.fx.Node) -> Any:
    """What joinable convolutions have in common; None for one that cannot be joined."""
    weight, bias = tensor_at(graph, operand(conv, 1)), operand(conv, 2)
    stride, padding, dilation, groups = (operand(conv, index) for index in (3, 4, 5, 6))
    plain = set(dilation or (1,)) == {1} and groups in (None, 1) and padding != "same" and not conv.kwargs
    if weight is None or not plain or (bias is not None and tensor_at(graph, bias) is None):
        return None
    high, wide = weight.shape[2:]
    borders = set(padding or (0,))
    if high != wide or high % 2 == 0 or len(borders) > 1:
        return None
    (border,) = borders
    # Filters of several sizes lie on each other where they are centred alike.
    size = high // 2 - border if weight.shape[1] <= FEW_CHANNELS else (high, border)
    return operand(conv, 0), weight.dtype, tuple(stride or (1, 1)), size


RECIPE = Recipe(
    "merge_convs",
    "convolutions that read the same input joined into one",
    RecipeStage.REWRITE,
    merge_convs,
    lambda problem: problem.lacks(mergeable_convs, "no two convolutions read the same input in the same steps"),
    prior_cpu=0.05,
    prior_cuda=0.0,  # one kernel less against slices that what follows reads
    blamed_for=("merged_weight", "merged_bias", "split_with_sizes"),
)
