"""A convolution after nearest upsampling works on the pixels before it, which are four times fewer.

Knows the graph. Of the nine pixels that a 3 x 3 filter covers after doubling, some are the same
pixel. Each of the four positions within a doubled pixel has a 2 x 2 filter of its own, whose weights
are sums of those of the 3 x 3 filter. One convolution computes the four, and their results are
interleaved: 16 products for 36. Decoders of images and U-Nets have this form (Odena et al. 2016,
Distill, doi:10.23915/distill.00003). Does not know other kinds of upsampling.
"""

from __future__ import annotations

from typing import Any

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
    tensor_at,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage


def upsampled_convs(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Convolve before doubling, for each 3 x 3 convolution that alone reads a nearest upsampling by 2."""
    graph = capture_graph(model, args, kwargs)
    for conv, upsampling in convs_after_doubling(graph):
        small, weight = operand(upsampling, 0), tensor_at(graph, operand(conv, 1))
        assert weight is not None
        filters = add_tensor(graph, "doubled_weight", filters_by_position(weight), conv)
        bias = tensor_at(graph, operand(conv, 2))
        shift = None if bias is None else add_tensor(graph, "doubled_bias", bias.repeat(4), conv)
        four = call_before(conv, torch.ops.aten.conv2d.default, small, filters, shift, [1, 1], [1, 1])
        doubled = interleaved(conv, four, *example_of(small).shape[2:])
        doubled.meta.update(conv.meta)
        conv.replace_all_uses_with(doubled)
    finish_edit(graph)
    return graph


def interleaved(before: torch.fx.Node, four: torch.fx.Node, height: int, width: int) -> torch.fx.Node:
    """The four results, one below the other in the channels, as the pixels of one twice as high and wide."""
    aten, channels = torch.ops.aten, example_of(four).shape[1] // 4
    rows = []
    for down in (0, 1):
        pixels = []
        for right in (0, 1):
            first = (2 * down + right) * channels
            part = call_before(before, aten.slice.Tensor, four, 1, first, first + channels)
            part = call_before(before, aten.slice.Tensor, part, 2, down, down + height)
            pixels.append(call_before(before, aten.slice.Tensor, part, 3, right, right + width))
        rows.append(call_before(before, aten.stack.default, pixels, 4))
    whole = call_before(before, aten.stack.default, rows, 3)
    shape = [example_of(four).shape[0], channels, 2 * height, 2 * width]
    return call_before(before, aten.reshape.default, whole, shape)


def filters_by_position(weight: torch.Tensor) -> torch.Tensor:
    """2 x 2 filters for the upper left, upper right, lower left and lower right of a doubled pixel.

    Args:
        weight: of the 3 x 3 convolution, (out, in, 3, 3).

    Returns:
        (4 x out, in, 2, 2), in the same dtype.
    """
    filters = []
    for down in (0, 1):
        rows = in_pairs(weight.double(), 2, down)
        filters += [in_pairs(rows, 3, right) for right in (0, 1)]
    return torch.cat(filters).to(weight.dtype)


def in_pairs(weight: torch.Tensor, axis: int, second: int) -> torch.Tensor:
    """Three weights along an axis as two: the last two fall on one pixel, or for `second` the first two."""
    first, middle, last = weight.unbind(axis)
    return torch.stack([first + middle, last] if second else [first, middle + last], axis)


def convs_after_doubling(graph: torch.fx.GraphModule) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """Pairs of a 3 x 3 convolution that keeps the size and the doubling that it alone reads."""
    pairs = []
    for conv in nodes_calling(graph, "conv2d"):
        upsampling, weight = operand(conv, 0), tensor_at(graph, operand(conv, 1))
        plain = [list(operand(conv, place) or [usual]) for place, usual in ((3, 1), (4, 0), (5, 1))]
        keeps = all(set(given) == {1} for given in plain) and operand(conv, 6) in (None, 1) and not conv.kwargs
        if weight is not None and weight.shape[2:] == (3, 3) and keeps and doubles(upsampling):
            pairs.append((conv, upsampling))
    return pairs


def doubles(node: Any) -> bool:
    """Whether a node repeats every pixel once in both directions, for one reader."""
    if not calls(node, "upsample_nearest2d", "_upsample_nearest_exact2d") or len(node.users) > 1:
        return False
    small, large = example_of(operand(node, 0)), example_of(node)
    return [2 * size for size in small.shape[2:]] == list(large.shape[2:])


RECIPE = Recipe(
    "upsampled_convs",
    "3 x 3 convolutions after doubling computed before it",
    RecipeStage.REWRITE,
    upsampled_convs,
    lambda problem: problem.lacks(convs_after_doubling, "no 3 x 3 convolution follows a nearest upsampling by 2"),
    prior_cpu=0.1,
    prior_cuda=0.1,
    blamed_for=("doubled_weight", "doubled_bias"),
)
