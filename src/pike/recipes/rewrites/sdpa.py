"""Attention that is written out becomes one call of `scaled_dot_product_attention`.

Knows the graph: a softmax over scores, followed by a product with the values. Scores are a product
of queries and keys with constant scales, masks and biases. Rewrites only what is equivalent. A mask
must be a constant that leaves something to attend to in every row. A fully masked row is NaN when
written out and zero in the fused operator. A finite fill of at most -1e9 counts as minus infinity,
because its weight is zero in every precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pike.recipes.capture.constants import constant_value, varying_nodes
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
from pike.recipes.framework.recipe import Recipe, RecipeStage


class WrittenAttention(NamedTuple):
    """Attention found in a graph: its operands, and the product with the values that ends it."""

    query: torch.fx.Node
    key_transposed: torch.fx.Node
    value: torch.fx.Node
    scale: float
    blocked: torch.Tensor | None
    bias: torch.Tensor | None
    output: torch.fx.Node


def sdpa(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every written-out attention by the fused operator."""
    graph = capture_graph(model, args, kwargs)
    for softmax in nodes_calling(graph, "softmax", "_softmax"):
        found = match_attention(graph, softmax, varying_nodes(graph))
        if found is not None:
            replace_attention(graph, found)
    finish_edit(graph)
    return graph


def replace_attention(graph: torch.fx.GraphModule, found: WrittenAttention) -> None:
    """Put the fused operator in front of the last product and have its users read it."""
    aten = torch.ops.aten
    end = found.output
    key = call_before(end, aten.transpose.int, found.key_transposed, -2, -1)
    operands = [found.query, key, found.value]
    flat = example_of(end).dim() == 3
    if flat:
        operands = [call_before(end, aten.unsqueeze.default, operand, 0) for operand in operands]
    options: dict[str, Any] = {"scale": found.scale}
    if found.blocked is not None and found.bias is None and is_future(found.blocked):
        options["is_causal"] = True
    elif found.blocked is not None or found.bias is not None:
        mask = attention_mask(found.blocked, found.bias)
        mask = mask.reshape([1] * (4 - mask.dim()) + list(mask.shape))
        options["attn_mask"] = add_tensor(graph, "attention_mask", mask, end)
    fused = call_before(end, aten.scaled_dot_product_attention.default, *operands, **options)
    result = call_before(end, aten.squeeze.dim, fused, 0) if flat else fused
    result.meta.update(end.meta)
    end.replace_all_uses_with(result)


def match_attention(
    graph: torch.fx.GraphModule, softmax: torch.fx.Node, varying: set[torch.fx.Node]
) -> WrittenAttention | None:
    """The attention around one softmax, None where it is not certainly equivalent."""
    example = example_of(softmax)
    if operand(softmax, 1) not in (-1, example.dim() - 1) or example.dim() not in (3, 4) or len(softmax.users) != 1:
        return None
    end = next(iter(softmax.users))
    scores = operand(softmax, 0)
    if not calls(end, "matmul", "bmm") or operand(end, 0) is not softmax or example_of(scores).dtype != example.dtype:
        return None
    scale, blocked, bias = 1.0, None, None
    while not calls(scores, "matmul", "bmm"):
        term = score_term(graph, scores, varying)
        if term is None or len(scores.users) != 1:
            return None
        scores, factor, block, added = term
        if added is not None:
            bias = added * scale if bias is None else bias + added * scale
        if block is not None:
            blocked = block if blocked is None else blocked | block
        scale *= factor
    query, key_transposed, value = operand(scores, 0), operand(scores, 1), operand(end, 1)
    shapes = [example_of(node).shape for node in (query, key_transposed, value)]
    alike = all(len(shape) == example.dim() and shape[:-2] == example.shape[:-2] for shape in shapes)
    if len(scores.users) != 1 or scale <= 0 or not alike or not is_safe_mask(blocked, bias, example.shape):
        return None
    return WrittenAttention(query, key_transposed, value, scale, blocked, bias, end)


def score_term(
    graph: torch.fx.GraphModule, node: torch.fx.Node, varying: set[torch.fx.Node]
) -> tuple[torch.fx.Node, float, torch.Tensor | None, torch.Tensor | None] | None:
    """One operation on scores: (scores before it, factor, what it blocks, what it adds) or None."""
    values = [constant_value(graph, arg, varying) for arg in node.args]
    if calls(node, "mul") and (values[0] is None) != (values[1] is None):
        factor = values[1] if values[0] is None else values[0]
        inner = operand(node, 0) if values[0] is None else operand(node, 1)
        return (inner, float(factor), None, None) if is_number(factor) else None
    if calls(node, "div") and values[0] is None and is_number(values[1]) and float(values[1]) != 0:
        return operand(node, 0), 1.0 / float(values[1]), None, None
    if calls(node, "add") and (values[0] is None) != (values[1] is None) and not node.kwargs:
        added = values[1] if values[0] is None else values[0]
        inner = operand(node, 0) if values[0] is None else operand(node, 1)
        return (inner, 1.0, None, added) if isinstance(added, torch.Tensor) and added.is_floating_point() else None
    if calls(node, "masked_fill") and values[1] is not None and is_low(values[2]):
        return operand(node, 0), 1.0, values[1].bool(), None
    if calls(node, "where") and len(values) == 3 and values[0] is not None:
        if values[1] is None and is_low(values[2]):
            return operand(node, 1), 1.0, ~values[0].bool(), None
        if values[2] is None and is_low(values[1]):
            return operand(node, 2), 1.0, values[0].bool(), None
    return None


def is_number(value: Any) -> bool:
    """Whether a value is a Python number or a tensor with one element."""
    return isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)


def is_low(value: Any) -> bool:
    """Whether a fill is so low that a softmax gives it no weight."""
    return is_number(value) and float(value) <= -1e9


def attention_mask(blocked: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """The mask of the fused operator: True where allowed, or a bias with minus infinity."""
    if bias is None:
        assert blocked is not None
        return ~blocked
    return bias if blocked is None else bias.masked_fill(blocked, float("-inf"))


def is_safe_mask(blocked: torch.Tensor | None, bias: torch.Tensor | None, shape: torch.Size) -> bool:
    """Whether a mask fits the scores and allows something in every row."""
    if blocked is None and bias is None:
        return True
    mask = attention_mask(blocked, bias)
    if mask.dim() < 2 or mask.dim() > len(shape) or mask.shape[-2:] != shape[-2:]:
        return False
    if any(size not in (1, full) for size, full in zip(reversed(mask.shape), reversed(shape), strict=False)):
        return False
    allowed = mask if mask.dtype == torch.bool else mask > -1e9
    return bool(allowed.any(-1).all()) and not bool(mask.isnan().any())


def is_future(blocked: torch.Tensor) -> bool:
    """Whether exactly the keys after each query are blocked, of as many keys as queries."""
    queries, keys = blocked.shape[-2:]
    future = torch.ones(queries, keys, dtype=torch.bool, device=blocked.device).triu(1)
    return queries == keys and bool((blocked == future).all())


def has_attention(graph: torch.fx.GraphModule) -> bool:
    """Whether some attention is written out in a form that is certainly equivalent."""
    varying = varying_nodes(graph)
    return any(match_attention(graph, softmax, varying) for softmax in nodes_calling(graph, "softmax", "_softmax"))


NOT_WRITTEN_OUT = "no written-out softmax attention with constant masks and scales"


RECIPE = Recipe(
    "sdpa",
    "written-out attention replaced by scaled_dot_product_attention",
    RecipeStage.REWRITE,
    sdpa,
    lambda problem: problem.lacks(has_attention, NOT_WRITTEN_OUT),
    prior_cpu=0.35,
    prior_cuda=0.45,
    blamed_for=("scaled_dot_product", "attention_mask", "attn_mask", "flash"),
)
