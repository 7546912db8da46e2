"""Average pooling moves before the 1 x 1 convolution that it follows, which then sees fewer pixels.

Knows the graph. Both are linear and act on different dimensions, pixels and channels. The weights
of a full window add up to 1, so the bias stays too. Values are the same up to rounding, for a
quarter of the products with 2 x 2 windows. DenseNet's transitions (Huang et al. 2017,
arXiv:1608.06993) have this form. Does not know max pooling, which does not commute.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import call_before, calls, capture_graph, finish_edit, nodes_calling, operand, tensor_at
from pike.recipes.framework.recipe import Recipe, RecipeStage


def pool_first(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Pool the input of each 1 x 1 convolution whose output only an average pooling reads."""
    graph = capture_graph(model, args, kwargs)
    for pool, conv in poolable_convs(graph):
        pooled = call_before(conv, pool.target, operand(conv, 0), *pool.args[1:], **pool.kwargs)
        moved = call_before(conv, conv.target, pooled, *conv.args[1:], **conv.kwargs)
        moved.meta.update(pool.meta)
        pool.replace_all_uses_with(moved)
    finish_edit(graph)
    return graph


def poolable_convs(graph: torch.fx.GraphModule) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """Pairs of an average pooling over full windows and the 1 x 1 convolution before it."""
    pools = nodes_calling(graph, "avg_pool2d", "adaptive_avg_pool2d")
    pairs = [(pool, operand(pool, 0)) for pool in pools if has_full_windows(pool)]
    return [(pool, conv) for pool, conv in pairs if len(conv.users) == 1 and is_pointwise_conv(graph, conv)]


def has_full_windows(pool: torch.fx.Node) -> bool:
    """Whether every output is the mean of its window, without padding or a divisor of its own."""
    if calls(pool, "adaptive_avg_pool2d"):
        return True
    padding, ceil, divisor = operand(pool, 3), operand(pool, 4), operand(pool, 6)
    return not any(padding or ()) and not ceil and divisor is None and not pool.kwargs


def is_pointwise_conv(graph: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    """Whether a node is a convolution of single pixels that keeps their number."""
    weight = tensor_at(graph, operand(node, 1)) if calls(node, "conv2d") else None
    if weight is None or weight.shape[2:] != (1, 1) or node.kwargs:
        return False
    stride, padding = operand(node, 3), operand(node, 4)
    return set(stride or (1,)) == {1} and (padding is None or (padding != "same" and not any(padding)))


RECIPE = Recipe(
    "pool_first",
    "average pooling moved before 1 x 1 convolutions",
    RecipeStage.REWRITE,
    pool_first,
    lambda problem: problem.lacks(poolable_convs, "no average pooling follows a 1 x 1 convolution"),
    prior_cpu=0.15,
    prior_cuda=0.1,
    blamed_for=("avg_pool",),
)
