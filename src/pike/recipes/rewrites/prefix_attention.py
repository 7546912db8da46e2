"""Attention whose mask lets blocks of queries see a prefix of the keys, block by block.

Masks of frames, chunks and prefixes look like that. Every row is True up to some key and False
after it, and many rows end at the same key. A block of such rows needs those keys only, which
leaves out the products that the mask would discard, and reading the mask. Exact but for the order
of sums. A mask that blocks exactly the future becomes the operator's own flag. Knows calls of
`scaled_dot_product_attention` with a constant mask. Does not know attention that is written out
(`sdpa`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pike.recipes.capture.constants import constant_value, varying_nodes
from pike.recipes.capture.graph import call_before, capture_graph, example_of, finish_edit, nodes_calling, operand
from pike.recipes.framework.recipe import Recipe, RecipeStage

LEAST_ROWS = 128
"""Blocks of fewer queries on average do not pay (docs/experiments/2026-11-23-cpu-masked-blocks.md).
"""
MOST_SHARE = 0.85
"""Blocks that need more than this share of all products do not pay."""


class MaskBlocks(NamedTuple):
    """A constant mask taken apart: (first query, query after the last, keys) of each block."""

    parts: tuple[tuple[int, int, int], ...]
    causal: bool


def prefix_attention(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every masked attention whose mask consists of blocks by attention of each block."""
    graph = capture_graph(model, args, kwargs)
    aten, varying = torch.ops.aten, varying_nodes(graph)
    for call in nodes_calling(graph, "scaled_dot_product_attention"):
        blocks = match_blocks(graph, call, varying)
        if blocks is None:
            continue
        query, key, value = call.args[:3]
        options = {name: item for name, item in call.kwargs.items() if name in ("scale", "enable_gqa")}
        if blocks.causal:
            result = call_before(call, call.target, query, key, value, is_causal=True, **options)
        else:
            results = []
            for start, stop, keys in blocks.parts:
                rows = call_before(call, aten.slice.Tensor, query, -2, start, stop)
                seen = [call_before(call, aten.slice.Tensor, one, -2, 0, keys) for one in (key, value)]
                results.append(call_before(call, call.target, rows, *seen, **options))
            result = joined_before(call, results)
        result.meta.update(call.meta)
        call.replace_all_uses_with(result)
        graph.graph.erase_node(call)  # it might draw numbers, so it is never dead code
    finish_edit(graph)
    return graph


def joined_before(call: torch.fx.Node, results: list[torch.fx.Node]) -> torch.fx.Node:
    """The joined results of blocks, in the memory layout that the attention would have."""
    aten, example = torch.ops.aten, example_of(call)
    if example.dim() != 4 or example.is_contiguous() or not example.transpose(1, 2).is_contiguous():
        return call_before(call, aten.cat.default, results, -2)
    turned = [call_before(call, aten.transpose.int, result, 1, 2) for result in results]
    return call_before(call, aten.transpose.int, call_before(call, aten.cat.default, turned, 1), 1, 2)


def match_blocks(graph: torch.fx.GraphModule, call: torch.fx.Node, varying: set[torch.fx.Node]) -> MaskBlocks | None:
    """The blocks of an attention's constant mask, None without one or where they would not pay."""
    given = call.kwargs.get("attn_mask", operand(call, 3))
    dropped: Any = call.kwargs.get("dropout_p", operand(call, 4)) or 0.0
    flagged: Any = call.kwargs.get("is_causal", operand(call, 5))
    mask = constant_value(graph, given, varying) if given is not None else None
    if not isinstance(mask, torch.Tensor) or dropped or flagged or mask.numel() == 0:
        return None
    queries, keys = example_of(operand(call, 0)).shape[-2], example_of(operand(call, 1)).shape[-2]
    seen = seen_keys(mask)
    return None if seen is None or seen.shape != (queries, keys) else blocks_of(seen)


def seen_keys(mask: torch.Tensor) -> torch.Tensor | None:
    """A mask as (queries, keys) booleans; None where heads differ or it adds something."""
    if mask.shape[:-2].numel() != 1:
        return None
    mask = mask.reshape(mask.shape[-2:]) if mask.dim() > 1 else mask
    if mask.dtype == torch.bool:
        return mask
    seen = mask == 0
    return seen if bool((seen | (mask == float("-inf"))).all()) else None


def blocks_of(seen: torch.Tensor) -> MaskBlocks | None:
    """The blocks of rows that see the same prefix of the keys, None where rows see others."""
    queries, keys = seen.shape
    ends = seen.sum(1)
    places = torch.arange(keys, device=seen.device)
    if not bool((ends > 0).all()) or not bool((seen == (places < ends[:, None])).all()):
        return None
    if queries == keys and bool((ends == places + 1).all()):
        return MaskBlocks((), causal=True)
    values, counts = torch.unique_consecutive(ends, return_counts=True)
    stops = counts.cumsum(0).tolist()
    parts = tuple(zip([0, *stops[:-1]], stops, values.tolist(), strict=True))
    products = sum((stop - start) * end for start, stop, end in parts)
    pays = queries >= LEAST_ROWS * len(parts) and products <= MOST_SHARE * queries * keys
    return MaskBlocks(parts, causal=False) if pays else None


def has_blocks(graph: torch.fx.GraphModule) -> bool:
    """Whether some attention has a constant mask of such blocks."""
    varying = varying_nodes(graph)
    return any(match_blocks(graph, call, varying) for call in nodes_calling(graph, "scaled_dot_product_attention"))


NO_BLOCKS = "no fused attention has a constant mask that lets blocks of queries see a beginning of the keys"


RECIPE = Recipe(
    "prefix_attention",
    "attention under a mask of blocks computed block by block, without what the mask discards",
    RecipeStage.REWRITE,
    prefix_attention,
    lambda problem: problem.lacks(has_blocks, NO_BLOCKS),
    prior_cpu=0.3,
    prior_cuda=0.3,
    blamed_for=("scaled_dot_product",),
)
