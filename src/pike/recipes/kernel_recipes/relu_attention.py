"""Causal attention with a ReLU in place of the softmax, without scores of the future.

Knows the graph: scores are a product of queries and keys with positive constant scales. They are
blocked above the diagonal, go through a ReLU (Wortsman et al. 2023, arXiv:2309.08586), and are
multiplied with the values. A blocked score is zero after the ReLU, so half of the products are not
needed. On a GPU a kernel keeps no scores at all. Elsewhere each block of queries is multiplied with
the keys up to its last one, and its scores stay in the cache. Exact but for the order of sums. Does
not know the kernel (`attention_operator`) nor softmax (`sdpa`), which needs all scores of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.capture.constants import varying_nodes
from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.attention_kernel import AttentionTerms
from pike.recipes.kernels.attention_operator import attention_before, fits_kernel
from pike.recipes.precision.tensor_cores import arithmetic_of, no_kernel
from pike.recipes.rewrites.sdpa import is_future, score_term

BLOCKS = 8
"""Blocks of queries: with more, each product becomes too small for what is saved."""
LEAST_TOKENS = 16
"""Fewer queries than this in a block do not pay."""
IN_BLOCKS = "blocks"
"""In `keep`: by PyTorch's products of blocks; else it names the arithmetic of the kernel
(`attention_kernel`)."""


class ReluAttention(NamedTuple):
    """Attention found in a graph: its operands, and the product with the values that ends it."""

    query: torch.fx.Node
    key_transposed: torch.fx.Node
    value: torch.fx.Node
    scale: float
    output: torch.fx.Node


def relu_attention(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = (IN_BLOCKS,)
) -> torch.fx.GraphModule:
    """Replace every causal attention with a ReLU.

    Args:
        model: the model, or its graph.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        keep: `IN_BLOCKS`, or the arithmetic of the kernel, which takes what fits it.
    """
    graph = capture_graph(model, args, kwargs)
    for relu in nodes_calling(graph, "relu"):
        found = match_rectified(graph, relu, varying_nodes(graph))
        if found is not None and keep[0] != IN_BLOCKS and has_kernel(found):
            replace_by_kernel(found, keep[0])
        elif found is not None:
            replace_by_blocks(graph, found)
    finish_edit(graph)
    return graph


def has_kernel(found: ReluAttention) -> bool:
    """Whether the kernel is good at attention of this shape and dtype: it sums in float32."""
    query, key, value = example_of(found.query), example_of(found.key_transposed).mT, example_of(found.value)
    dtypes = {query.dtype, key.dtype, value.dtype}
    short_enough = dtypes in ({torch.float32}, {torch.float16}, {torch.bfloat16})
    return short_enough and fits_kernel(query.shape, key.shape, value.shape)


def replace_by_kernel(found: ReluAttention, arithmetic: str) -> None:
    """Put a call of the kernel in front of the last product and have its users read that."""
    end = found.output
    key = call_before(end, torch.ops.aten.transpose.int, found.key_transposed, -2, -1)
    result = attention_before(end, (found.query, key, found.value), AttentionTerms(found.scale, True, True, arithmetic))
    end.replace_all_uses_with(result)


def replace_by_blocks(graph: torch.fx.GraphModule, found: ReluAttention) -> None:
    """Put blocks in front of the last product and have its users read them, joined."""
    aten, end = torch.ops.aten, found.output
    tokens = example_of(end).shape[-2]
    step = max(LEAST_TOKENS, -(-tokens // BLOCKS))
    scaled = call_before(end, aten.mul.Tensor, found.query, found.scale)
    device = example_of(end).device
    future = torch.ones(step, step, dtype=torch.bool, device=device).triu(1)
    blocks = []
    for start in range(0, tokens, step):
        stop = min(start + step, tokens)
        query = call_before(end, aten.slice.Tensor, scaled, -2, start, stop)
        key = call_before(end, aten.slice.Tensor, found.key_transposed, -1, 0, stop)
        value = call_before(end, aten.slice.Tensor, found.value, -2, 0, stop)
        past = torch.zeros(stop - start, start, dtype=torch.bool, device=device)
        blocked = torch.cat([past, future[: stop - start, : stop - start]], dim=1)
        mask = add_tensor(graph, "blocked", blocked, end)
        scores = call_before(end, aten.relu.default, call_before(end, aten.matmul.default, query, key))
        weights = call_before(end, aten.masked_fill.Scalar, scores, mask, 0.0)
        blocks.append(call_before(end, aten.matmul.default, weights, value))
    result = call_before(end, aten.cat.default, blocks, -2)
    result.meta.update(end.meta)
    end.replace_all_uses_with(result)


def match_rectified(
    graph: torch.fx.GraphModule, relu: torch.fx.Node, varying: set[torch.fx.Node]
) -> ReluAttention | None:
    """The causal attention around one ReLU, None where it is not certainly equivalent."""
    example = example_of(relu)
    if not isinstance(example, torch.Tensor) or example.dim() not in (3, 4) or len(relu.users) != 1:
        return None
    end, scores = next(iter(relu.users)), operand(relu, 0)
    if not calls(end, "matmul", "bmm") or operand(end, 0) is not relu or example.shape[-1] != example.shape[-2]:
        return None
    scale, blocked = 1.0, None
    while not calls(scores, "matmul", "bmm"):
        term = score_term(graph, scores, varying)
        if term is None or len(scores.users) != 1 or term[3] is not None or term[1] <= 0:
            return None
        scores, factor, block, _ = term
        if block is not None:
            blocked = block if blocked is None else blocked | block
        scale *= factor
    if blocked is None or len(scores.users) != 1:
        return None
    if blocked.shape[-2:] != example.shape[-2:] or not is_future(blocked):
        return None
    found = ReluAttention(operand(scores, 0), operand(scores, 1), operand(end, 1), scale, end)
    shapes = [example_of(node).shape for node in found[:3]]
    return found if all(shape[:-2] == example.shape[:-2] for shape in shapes) else None


def all_rectified(graph: torch.fx.GraphModule) -> list[ReluAttention]:
    """Every attention of a graph that is rectified."""
    varying = varying_nodes(graph)
    found = [match_rectified(graph, node, varying) for node in nodes_calling(graph, "relu")]
    return [one for one in found if one is not None]


def has_long_rectified(graph: torch.fx.GraphModule) -> bool:
    """Whether some attention of a graph is rectified and long enough to be worth rewriting."""
    return any(example_of(found.output).shape[-2] > LEAST_TOKENS for found in all_rectified(graph))


NOT_RECTIFIED = "no causal attention with a ReLU in place of the softmax"


def attention_way(problem: RecipeContext) -> tuple[str, ...]:
    """`IN_BLOCKS`, or the kernel's arithmetic where the device has it and some attention fits."""
    assert problem.graph is not None
    by_kernel = not no_kernel(problem.facts) and any(map(has_kernel, all_rectified(problem.graph)))
    return (arithmetic_of(problem.options.precision),) if by_kernel else (IN_BLOCKS,)


def slower_in_half(problem: RecipeContext) -> float:
    """The loss in 16 bits: blocks took 1.1 to 1.4 times as long as all scores on H200s and an H100.

    Measured in docs/experiments/2026-11-23-h100-1-half-over-28-tasks.md.
    """
    in_half = problem.facts.is_cuda and problem.options.precision is Precision.HALF
    return -0.7 if in_half and attention_way(problem) == (IN_BLOCKS,) else 0.0


RECIPE = Recipe(
    "relu_attention",
    "causal attention with a ReLU that skips the future",
    RecipeStage.REWRITE,
    relu_attention,
    lambda problem: problem.lacks(has_long_rectified, NOT_RECTIFIED),
    prior_cpu=0.4,
    prior_cuda=0.4,
    suits=slower_in_half,
    blamed_for=("blocked_", "pike_attention", "attention_fwd", "OutOfResources"),
    adapt=attention_way,
)
