"""3 x 3 convolutions of a graph by Winograd's algorithm, and what is fused into them.

Tiles of 2 x 2 outputs need 2.25 times fewer multiplications, with a rounding error like that of the
direct sum. Tiles of 4 x 4 need four times fewer, for two to three times that error: where the error
budget refuses it, 2 x 2 is the repair. Knows the graph. Does not know the kernel
(`winograd_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    sole_user,
    tensor_at,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.winograd_kernel import winograd_operator, winograd_packed
from pike.recipes.precision.sixteen_bits import NAMES_OF_16_BITS

MOST_TRANSFORMED_BYTES = 12_000_000
"""Above this, reading the weights transformed for 4 x 4 tiles costs more than the multiplications
saved."""


class Epilogue(NamedTuple):
    """What is fused into a convolution: an added tensor, a ReLU; `last` is the last node."""

    add: torch.fx.Node | None
    relu: bool
    last: torch.fx.Node


def winograd2(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """3 x 3 convolutions in tiles of 2 x 2 outputs."""
    return use_winograd(model, args, kwargs, lambda _weight: 2)


def winograd4(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """3 x 3 convolutions in tiles of 4 x 4 or 2 x 2 outputs."""
    return use_winograd(model, args, kwargs, winograd_tile)


def winograd_tile(weight: torch.Tensor) -> int:
    """The tile size for a (K, C, 3, 3) weight: 4 where the transformed weights fit the caches."""
    return 4 if weight.shape[0] * weight.shape[1] * 36 * 4 <= MOST_TRANSFORMED_BYTES else 2


def use_winograd(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tile_of: Callable[[torch.Tensor], int]
) -> torch.fx.GraphModule:
    """Replace 3 x 3 convolutions, in tiles of the size that `tile_of` gives for a weight."""
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
    """The addition and the ReLU that follow a convolution and are the only readers."""
    last, add = conv, None
    user = sole_user(last)
    if user is not None and calls(user, "add") and not user.kwargs:
        others = [value for value in user.args[:2] if isinstance(value, torch.fx.Node) and value is not conv]
        if len(others) == 1 and getattr(example_of(others[0]), "shape", None) == example_of(conv).shape:
            last, add = user, others[0]
    user = sole_user(last)
    relu = user is not None and calls(user, "relu")
    return Epilogue(add, relu, user if relu and user is not None else last)


def winograd_declines(problem: RecipeContext) -> str:
    """Declines on GPUs, without a C++ compiler, and where no convolution fits."""
    if problem.facts.is_cuda:
        return "this kernel is for CPUs"
    if problem.compiler:
        return "the kernel needs g++ or clang++"
    otherwise = "no 3 x 3 convolution has stride 1, padding 1 and channels in multiples of 16 and 64"
    return problem.lacks(winograd_convs, otherwise)


WINOGRAD2_RECIPE = Recipe(
    "winograd2",
    "3 x 3 convolutions by Winograd's algorithm in 2 x 2 tiles",
    RecipeStage.REWRITE,
    winograd2,
    winograd_declines,
    excludes=NAMES_OF_16_BITS,
    prior_cpu=0.3,
    blamed_for=("winograd",),
)

WINOGRAD4_RECIPE = Recipe(
    "winograd4",
    "3 x 3 convolutions by Winograd's algorithm in 4 x 4 tiles, 2 x 2 where weights are large",
    RecipeStage.REWRITE,
    winograd4,
    winograd_declines,
    excludes=NAMES_OF_16_BITS | {"winograd2"},
    prior_cpu=0.45,
    blamed_for=("winograd",),
)
