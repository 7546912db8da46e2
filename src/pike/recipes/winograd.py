"""3 x 3 convolutions of a graph by Winograd's algorithm: which ones, and what is fused into them.

Knows the graph. Does not know the kernel (`winograd_kernel`), nor which tile size is wanted: `winograd2` and
`winograd4` are the recipes. Its functions are copied into candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pike.recipes.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    tensor_at,
)
from pike.recipes.recipe import Problem, needs_graph
from pike.recipes.winograd_kernel import winograd_operator, winograd_packed


class Epilogue(NamedTuple):
    """What is fused into a convolution: a tensor added to its result, a ReLU; `last` is the last of them."""

    add: torch.fx.Node | None
    relu: bool
    last: torch.fx.Node


def use_winograd(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tile_of: Callable[[torch.Tensor], int]
) -> torch.fx.GraphModule:
    """Replace the 3 x 3 convolutions for which `tile_of` gives a tile size to a weight; 0 leaves one as it is."""
    graph = capture_graph(model, args, kwargs)
    operator = winograd_operator()
    for conv in winograd_convs(graph):
        found = with_epilogue(conv)
        weight = tensor_at(graph, operand(conv, 1))
        assert weight is not None
        tile = tile_of(weight)
        if tile:
            packed = add_tensor(graph, "winograd_weight", winograd_packed(weight, tile), found.last)
            inputs = (operand(conv, 0), packed, operand(conv, 2), found.add)
            fused = call_before(found.last, operator, *inputs, found.relu, tile)
            fused.meta.update(found.last.meta)
            found.last.replace_all_uses_with(fused)
    finish_edit(graph)
    return graph


def winograd_convs(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The float32 convolutions with stride 1 and padding 1 whose channels fit the kernel."""
    return [conv for conv in nodes_calling(graph, "conv2d") if fits_winograd(graph, conv)]


def fits_winograd(graph: torch.fx.GraphModule, conv: torch.fx.Node) -> bool:
    """Whether the kernel can do this convolution."""
    weight = tensor_at(graph, operand(conv, 1))
    bias = operand(conv, 2)
    if weight is None or weight.dtype != torch.float32 or weight.shape[2:] != (3, 3) or weight.device.type != "cpu":
        return False
    if bias is not None and tensor_at(graph, bias) is None:
        return False
    stride, padding, dilation, groups = (operand(conv, index) for index in (3, 4, 5, 6))
    plain = stride in (None, [1, 1]) and padding == [1, 1] and dilation in (None, [1, 1]) and groups in (None, 1)
    large = min(example_of(conv).shape[2:]) >= 4
    return plain and large and weight.shape[0] % 64 == 0 and weight.shape[1] % 16 == 0


def with_epilogue(conv: torch.fx.Node) -> Epilogue:
    """The addition and the ReLU that follow a convolution and that alone read what is before them."""
    last, add = conv, None
    user = sole_user(last)
    if user is not None and calls(user, "add") and not user.kwargs:
        others = [value for value in user.args[:2] if isinstance(value, torch.fx.Node) and value is not conv]
        if len(others) == 1 and getattr(example_of(others[0]), "shape", None) == example_of(conv).shape:
            last, add = user, others[0]
    user = sole_user(last)
    relu = user is not None and calls(user, "relu")
    return Epilogue(add, relu, user if relu and user is not None else last)


def sole_user(node: torch.fx.Node) -> torch.fx.Node | None:
    """The only node that reads a node, None where there are several."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def winograd_declines(problem: Problem) -> str:
    """Declines on GPUs, without a C++ compiler, and where no convolution fits."""
    if problem.facts.is_cuda:
        return "this kernel is for CPUs"
    if problem.compiler:
        return "the kernel needs g++ or clang++"
    if problem.graph is None:
        return needs_graph(problem)
    if winograd_convs(problem.graph):
        return ""
    return "no 3 x 3 convolution has stride 1, padding 1 and channels in multiples of 16 and 64"
