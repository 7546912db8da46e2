"""The attention kernel as an operator of PyTorch, for recipes that put it into a graph.

Knows where the kernel pays, how its output should lie in memory, and what it computes where there is no GPU. Does not
know the kernel (`attention_kernel`), where it runs (`tensor_cores`), nor which attention of a graph it replaces
(`float32_attention`, `relu_attention`).
"""

from __future__ import annotations

import torch

from pike.recipes.attention_kernel import attend
from pike.recipes.graph import call_before, calls, example_of, operand

LEAST_ATTENDED = 64
"""With fewer queries or keys than this blocks are mostly empty."""
HEAD_SIZES = range(16, 129)
"""Heads that the kernel's blocks fit; larger ones run out of registers."""


def fits_kernel(query: torch.Size, key: torch.Size, value: torch.Size) -> bool:
    """Whether tensors of these shapes, (batch, heads, tokens, size) each, are what the kernel is good at."""
    if {len(query), len(key), len(value)} != {4}:
        return False
    alike = query[:2] == key[:2] == value[:2] and key[2] == value[2] and query[3] == key[3]
    return alike and query[3] in HEAD_SIZES and value[3] in HEAD_SIZES and min(query[2], key[2]) >= LEAST_ATTENDED


def attention_before(
    end: torch.fx.Node,
    operands: tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node],
    scale: float,
    causal: bool,
    rectified: bool,
    arithmetic: str,
) -> torch.fx.Node:
    """A call of the operator in front of the node `end`, whose value it has.

    Args:
        end: what the attention that is replaced ends with; its output has four axes.
        operands: queries, keys and values, as `run_attention` takes them.
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        rectified: whether scores are rectified instead of normalised.
        arithmetic: of the products (`attention_kernel`).
    """
    define_attention()
    layout = (scale, causal, is_turned(end), rectified, arithmetic)
    result = call_before(end, torch.ops.pike_attention.attend.default, *operands, *layout)
    result.meta.update({name: item for name, item in end.meta.items() if name not in result.meta})
    return result


def is_turned(call: torch.fx.Node) -> bool:
    """Whether the output is to lie in memory with queries before heads.

    So it does where the example does, and where all that follows swaps the two for a copy or a product.
    """
    example = example_of(call)
    if not example.is_contiguous() and example.transpose(1, 2).is_contiguous():
        return True
    users = [(user, 1) for user in call.users if not calls(user, "squeeze")]
    users += [(user, 0) for squeezed in call.users if calls(squeezed, "squeeze") for user in squeezed.users]
    return bool(users) and all(is_swap(user, first) for user, first in users)


def is_swap(node: torch.fx.Node, first: int) -> bool:
    """Whether a node swaps an axis with the next one for something that does not ask how its input lies in memory."""
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
    turned: bool,
    rectified: bool,
    arithmetic: str,
) -> torch.Tensor:
    """Attention by the kernel; by PyTorch where there is no GPU.

    Args:
        query: (batch, heads, queries, size), float32 or 16 bits, in any layout; copied only if its last axis has gaps.
        key: (batch, heads, keys, size), of the same dtype, as is `value`.
        value: (batch, heads, keys, value size).
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        turned: whether the output lies in memory with queries before heads.
        rectified: whether scores below zero count as zero, and no softmax is taken.
        arithmetic: of products of float32 numbers (`attention_kernel`).

    Returns:
        (batch, heads, queries, value size).
    """
    output = empty_attention(query, key, value, scale, causal, turned, rectified, arithmetic)
    if not query.is_cuda:
        return output.copy_(plain_attention(query, key, value, scale, causal, rectified))
    tensors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (query, key, value)]
    with torch.cuda.device(query.device):
        attend(tensors[0], tensors[1], tensors[2], output, scale, causal, arithmetic, rectified=rectified)
    return output


def plain_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, causal: bool, rectified: bool
) -> torch.Tensor:
    """What the kernel computes, by PyTorch's own operators; the arguments are those of `run_attention`."""
    if not rectified:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    scores = torch.relu(query @ key.transpose(-2, -1) * scale)
    return (scores.tril() if causal else scores) @ value


def empty_attention(
    query: torch.Tensor,
    _key: torch.Tensor,
    value: torch.Tensor,
    _scale: float,
    _causal: bool,
    turned: bool,
    _rectified: bool,
    _arithmetic: str,
) -> torch.Tensor:
    """What `run_attention` returns, without data."""
    batch, heads, queries, _ = query.shape
    if turned:
        return query.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
    return query.new_empty(batch, heads, queries, value.shape[-1])


def define_attention() -> None:
    """Make `run_attention` an operator, so that compilers leave it alone; once in a process."""
    if hasattr(torch.ops.pike_attention, "attend"):
        return
    tensors, switches = "Tensor query, Tensor key, Tensor value", "bool causal, bool turned, bool rectified"
    torch.library.define("pike_attention::attend", f"({tensors}, float scale, {switches}, str arithmetic) -> Tensor")
    torch.library.impl("pike_attention::attend", "CompositeExplicitAutograd", run_attention)
    torch.library.register_fake("pike_attention::attend", empty_attention)
