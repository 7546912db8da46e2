"""Attention of a few queries reads keys and values where they lie.

A decoding step has one query for each sequence, and keys and values of all tokens before it. Models
join the new key to the others, and repeat both where several heads share them. For one query that
writes and reads again far more than it computes. Here each part of the keys is multiplied by itself,
for all heads that share it. Exact but for the order of sums. Knows calls of
`scaled_dot_product_attention` without a mask, or with a constant one that hides nothing. Does not
know attention that is written out (`sdpa`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pike.recipes.capture.constants import constant_value, varying_nodes
from pike.recipes.capture.graph import (
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage

MOST_QUERIES = 16
"""With more, scores that are written and read cost more than what is saved: a guess."""
LEAST_KEYS_READ = 1 << 13
"""With fewer numbers in all keys nothing is saved that could be seen: a guess."""


class FewQueries(NamedTuple):
    """A call of attention: what it scales scores with, and (keys, values) pairs that it joins, ungrouped."""

    scale: float
    parts: tuple[tuple[torch.fx.Node, torch.fx.Node], ...]


def few_queries(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace attention of few queries to joined or repeated keys by products with each part."""
    graph = capture_graph(model, args, kwargs)
    varying = varying_nodes(graph)
    for call in nodes_calling(graph, "scaled_dot_product_attention"):
        found = match_few(graph, call, varying)
        if found is not None:
            call.replace_all_uses_with(attend_parts(call, found))
            graph.graph.erase_node(call)  # it might draw numbers, so it is never dead code
    finish_edit(graph)
    return graph


def attend_parts(call: torch.fx.Node, found: FewQueries) -> torch.fx.Node:
    """The same attention before the node `call`, as products with each part."""
    aten, (batch, heads, queries, size) = torch.ops.aten, example_of(operand(call, 0)).shape
    groups = example_of(found.parts[0][0]).shape[1]
    rows = call_before(call, aten.reshape.default, operand(call, 0), [batch, groups, heads // groups * queries, size])
    rows = call_before(call, aten.mul.Tensor, rows, found.scale)
    scores, lengths = [], []
    for key, _ in found.parts:
        lengths.append(example_of(key).shape[2])
        if lengths[-1] == 1:  # a compiler puts it beside what follows, which it cannot do with a product
            products = call_before(call, aten.mul.Tensor, rows, key)
            scores.append(call_before(call, aten.sum.dim_IntList, products, [-1], True))
        else:
            scores.append(
                call_before(call, aten.matmul.default, rows, call_before(call, aten.transpose.int, key, 2, 3))
            )
    joined = scores[0] if len(scores) == 1 else call_before(call, aten.cat.default, scores, -1)
    weights = call_before(call, aten.softmax.int, joined, -1)
    result, start = None, 0
    for (_, value), length in zip(found.parts, lengths, strict=True):
        mine = weights
        if len(lengths) > 1:
            mine = call_before(call, aten.slice.Tensor, weights, -1, start, start + length)
        start += length
        read = call_before(call, aten.mul.Tensor if length == 1 else aten.matmul.default, mine, value)
        result = read if result is None else call_before(call, aten.add.Tensor, result, read)
    assert result is not None
    return laid_out(call, result)


def laid_out(call: torch.fx.Node, result: torch.fx.Node) -> torch.fx.Node:
    """The result of (batch, groups, rows, size) in the shape and the memory layout of the node `call`."""
    aten, example = torch.ops.aten, example_of(call)
    batch, heads, queries, size = example.shape
    tokens_first = queries == 1 or example.stride(2) > example.stride(1)
    shape = [batch, queries, heads, size] if queries == 1 else [batch, heads, queries, size]
    whole = call_before(call, aten.reshape.default, result, shape)
    if tokens_first and queries > 1:
        whole = call_before(call, aten.transpose.int, whole, 1, 2)
        whole = call_before(call, aten.contiguous.default, whole)
    if tokens_first:
        whole = call_before(call, aten.transpose.int, whole, 1, 2)
    whole.meta.update({name: item for name, item in call.meta.items() if name not in whole.meta})
    return whole


def match_few(graph: torch.fx.GraphModule, call: torch.fx.Node, varying: set[torch.fx.Node]) -> FewQueries | None:
    """What a call of attention joins and repeats for a few queries, None where it does neither."""
    query, key, value = (example_of(operand(call, place)) for place in range(3))
    mask = call.kwargs.get("attn_mask", operand(call, 3))
    chance: Any = call.kwargs.get("dropout_p", operand(call, 4)) or 0.0
    causal: Any = call.kwargs.get("is_causal", operand(call, 5))
    if {query.dim(), key.dim(), value.dim()} != {4} or chance or causal:
        return None
    if query.shape[2] > MOST_QUERIES or key.numel() < LEAST_KEYS_READ or not hides_nothing(graph, mask, varying):
        return None
    if not query.shape[0] == key.shape[0] == value.shape[0] or key.shape[1:3] != value.shape[1:3]:
        return None
    keys, values = (ungrouped(operand(call, place)) for place in (1, 2))
    parts = list(zip(joined_parts(keys), joined_parts(values), strict=False))
    lengths = [[example_of(one).shape[2] for one in pair] for pair in parts]
    if any(len(set(pair)) > 1 for pair in lengths) or sum(pair[0] for pair in lengths) != key.shape[2]:
        parts = [(keys, values)]
    groups = {example_of(one).shape[1] for pair in parts for one in pair}
    if any(example_of(one).dtype != query.dtype for pair in parts for one in pair):
        return None
    repeated = groups != {query.shape[1]}
    if len(groups) != 1 or query.shape[1] % min(groups) or not (repeated or len(parts) > 1):
        return None
    scale: Any = call.kwargs.get("scale")
    return FewQueries(float(query.shape[3] ** -0.5 if scale is None else scale), tuple(parts))


def hides_nothing(graph: torch.fx.GraphModule, mask: Any, varying: set[torch.fx.Node]) -> bool:
    """Whether a mask is left out, or is a constant that shows every key and adds nothing."""
    if mask is None:
        return True
    found = constant_value(graph, mask, varying)
    if not isinstance(found, torch.Tensor):
        return False
    return bool(found.all() if found.dtype == torch.bool else (found == 0).all())


def ungrouped(node: torch.fx.Node) -> torch.fx.Node:
    """Keys or values of (batch, groups, tokens, size) that this node repeats for heads, or the node itself."""
    wide = operand(node, 0) if calls(node, "reshape", "_unsafe_view") else None
    wide = operand(wide, 0) if wide is not None and calls(wide, "clone") else wide
    tall = operand(wide, 0) if wide is not None and calls(wide, "expand") else None
    if wide is None or tall is None or not calls(tall, "unsqueeze") or operand(tall, 1) not in (2, -3):
        return node
    source: torch.fx.Node = operand(tall, 0)
    if example_of(source).dim() != 4:
        return node
    (batch, groups, tokens, size), heads = example_of(source).shape, example_of(node).shape[1]
    shapes = (batch, groups, heads // groups, tokens, size), (batch, heads, tokens, size)
    return source if (example_of(wide).shape, example_of(node).shape) == shapes else node


def joined_parts(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The keys or values that a node joins for this attention alone; else the node itself."""
    if not calls(node, "cat") or len(node.users) > 1 or operand(node, 1) not in (2, -2):
        return [node]
    return [part for part in operand(node, 0) if example_of(part).numel()]


def has_few_queries(graph: torch.fx.GraphModule) -> bool:
    """Whether some attention joins or repeats its keys for a few queries."""
    varying = varying_nodes(graph)
    return any(match_few(graph, call, varying) for call in nodes_calling(graph, "scaled_dot_product_attention"))


NO_FEW = "no fused attention of at most 16 queries joins keys, or repeats them for its heads"


RECIPE = Recipe(
    "few_queries",
    "attention of a few queries reads keys and values where they lie, neither joined nor repeated",
    RecipeStage.REWRITE,
    few_queries,
    lambda problem: problem.lacks(has_few_queries, NO_FEW),
    prior_cpu=0.4,
    prior_cuda=0.4,
    blamed_for=("scaled_dot_product", "matmul", "bmm"),
)
