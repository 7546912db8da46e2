"""The attention kernel as an operator of PyTorch, for recipes that put it into a graph.

Knows where the kernel pays, how its output should lie in memory, and what it computes where there
is no GPU. Does not know the kernel (`attention_kernel`), where it runs (`tensor_cores`), nor which
attention of a graph it replaces (`float32_attention`, `relu_attention`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import call_before, calls, example_of, operand
from pike.recipes.kernels.attention_kernel import AttentionTerms, attend
from pike.recipes.kernels.operator import define_operator

LEAST_ATTENDED = 64
"""With fewer queries or keys than this blocks are mostly empty."""
HEAD_SIZES = range(16, 129)
"""Heads that the kernel's blocks fit; larger ones run out of registers."""


def fits_kernel(query: torch.Size, key: torch.Size, value: torch.Size) -> bool:
    """Whether the kernel is good at tensors of these shapes, (batch, heads, tokens, size) each."""
    if {len(query), len(key), len(value)} != {4}:
        return False
    alike = query[:2] == key[:2] == value[:2] and key[2] == value[2] and query[3] == key[3]
    return alike and query[3] in HEAD_SIZES and value[3] in HEAD_SIZES and min(query[2], key[2]) >= LEAST_ATTENDED


def attention_before(
    end: torch.fx.Node,
    operands: tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node],
    terms: AttentionTerms,
) -> torch.fx.Node:
    """Insert a call of the operator before the node `end`, whose value it computes.

    Args:
        end: what the attention that is replaced ends with; its output has four axes.
        operands: queries, keys and values, as `run_attention` takes them.
        terms: what is computed.
    """
    layout = (terms.scale, terms.causal, wants_tokens_first(end), terms.rectified, terms.arithmetic)
    result = call_before(end, attention_operator(), *operands, *layout)
    result.meta.update({name: item for name, item in end.meta.items() if name not in result.meta})
    return result


def wants_tokens_first(call: torch.fx.Node) -> bool:
    """Whether the output should lie in memory with queries before heads.

    So it does where the example does, and where all that follows swaps the two for a copy or a
    product.
    """
    example = example_of(call)
    if not example.is_contiguous() and example.transpose(1, 2).is_contiguous():
        return True
    users = [(user, 1) for user in call.users if not calls(user, "squeeze")]
    users += [(user, 0) for squeezed in call.users if calls(squeezed, "squeeze") for user in squeezed.users]
    return bool(users) and all(is_swap(user, first) for user, first in users)


def is_swap(node: torch.fx.Node, first: int) -> bool:
    """Whether a node swaps two axes for readers that accept any memory layout."""
    dims = example_of(node).dim() if calls(node, "transpose") else 1
    places = sorted(int(operand(node, index)) % dims for index in (1, 2)) if calls(node, "transpose") else []
    follows = all(calls(user, "reshape", "flatten", "contiguous", "linear") for user in node.users)
    return places == [first, first + 1] and follows


def run_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    causal: bool,
    tokens_first: bool,
    rectified: bool,
    arithmetic: str,
) -> torch.Tensor:
    """Attention by the kernel; by PyTorch where there is no GPU.

    Args:
        query: (batch, heads, queries, size), float32 or 16 bits, in any layout; copied only if its
            last axis has gaps.
        key: (batch, heads, keys, size), of the same dtype, as is `value`.
        value: (batch, heads, keys, value size).
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        tokens_first: whether the output lies in memory with queries before heads.
        rectified: whether scores below zero count as zero, and no softmax is taken.
        arithmetic: of products of float32 numbers (`attention_kernel`).

    Returns:
        (batch, heads, queries, value size).
    """
    output = empty_attention(query, key, value, scale, causal, tokens_first, rectified, arithmetic)
    terms = AttentionTerms(scale, causal, rectified, arithmetic)
    if not query.is_cuda:
        return output.copy_(plain_attention(query, key, value, terms))
    tensors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (query, key, value)]
    with torch.cuda.device(query.device):
        attend(tensors[0], tensors[1], tensors[2], output, terms)
    return output


def plain_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, terms: AttentionTerms) -> torch.Tensor:
    """Attention by PyTorch's operators."""
    if not terms.rectified:
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(query, key, value, is_causal=terms.causal, scale=terms.scale)
    scores = torch.relu(query @ key.transpose(-2, -1) * terms.scale)
    return (scores.tril() if terms.causal else scores) @ value


def empty_attention(
    query: torch.Tensor, _key: Any, value: torch.Tensor, _scale: float, _causal: bool, tokens_first: bool, *_others: Any
) -> torch.Tensor:
    """An empty result of `run_attention`."""
    batch, heads, queries, _ = query.shape
    if tokens_first:
        return query.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
    return query.new_empty(batch, heads, queries, value.shape[-1])


def attention_operator() -> Any:
    """`run_attention` as an operator."""
    tensors, switches = "Tensor query, Tensor key, Tensor value", "bool causal, bool tokens_first, bool rectified"
    schema = f"({tensors}, float scale, {switches}, str arithmetic) -> Tensor"
    return define_operator("pike_attention::attend", schema, run_attention, empty_attention)
