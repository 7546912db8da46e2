"""Large attention in float32 by a kernel that uses tensor cores as fully as it can without losing bits.

PyTorch's own fused kernel for float32 reaches 20 to 44 TFLOPS on an H200, where this one reaches 30 to 60 with less
error (benchmarks/float32_attention.py, docs/log.md). Knows calls of `scaled_dot_product_attention` in the graph: no
mask or the causal flag, no dropout, heads of ordinary sizes, enough work; attention that is written out, or masked in
blocks, becomes such calls first, as `sdpa` and `prefix_attention` do it. A number is a sum of bfloat16 numbers: of
three where float32 must stay float32, of two, which is still more than TensorFloat-32 has, where that is allowed. Does
not know the kernel (`attention_kernel`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.attention_kernel import attend
from pike.recipes.graph import call_before, calls, example_of, finish_edit, nodes_calling, operand
from pike.recipes.narrowing import copied
from pike.recipes.prefix_attention import prefix_attention
from pike.recipes.recipe import Problem, Recipe, Stage, needs_graph
from pike.recipes.rounding import operations
from pike.recipes.sdpa import sdpa
from pike.recipes.tf32 import no_tf32

LEAST_ATTENTION = 1 << 30
"""With fewer multiplications in both products of a call there is little to gain: a guess."""
LEAST_ATTENDED = 64
"""With fewer queries or keys than this blocks are mostly empty."""
HEAD_SIZES = range(16, 129)
"""Heads that the kernel's blocks fit; larger ones run out of registers."""
EXACT, SHORT = "bf16x6", "bf16x3"
"""The arithmetic of products that keep float32's bits, and of those that may keep as few as TensorFloat-32's."""
SAVED_SHARE = {EXACT: 0.38, SHORT: 0.6}
"""The share of attention's time that is saved, the median over the shapes that were measured."""
FIRST_TRITON = (3, 6)
"""Its compiler knows these products."""


def float32_attention(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("bf16x6",)
) -> torch.fx.GraphModule:
    """Replace every large float32 attention by a kernel for tensor cores.

    Args:
        model: the model, or its graph.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        keep: the arithmetic of the products, one name (`attention_kernel`).
    """
    graph = prefix_attention(sdpa(model, args, kwargs), args, kwargs)
    define_attention()
    for call in large_attention(graph):
        query, key, value = call.args[:3]
        scale: Any = call.kwargs.get("scale")
        scale = example_of(operand(call, 0)).shape[-1] ** -0.5 if scale is None else scale
        causal = bool(call.kwargs.get("is_causal", operand(call, 5)))
        layout = (causal, is_turned(call), keep[0])
        result = call_before(call, torch.ops.pike_attention.float32.default, query, key, value, float(scale), *layout)
        result.meta.update({name: item for name, item in call.meta.items() if name not in result.meta})
        call.replace_all_uses_with(result)
        graph.graph.erase_node(call)  # it might draw numbers, so it is never dead code
    finish_edit(graph)
    return graph


def large_attention(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The calls of fused attention that the kernel can take and that have enough work for it."""
    return [call for call in nodes_calling(graph, "scaled_dot_product_attention") if is_large_attention(call)]


def is_large_attention(call: torch.fx.Node) -> bool:
    """Whether one call is plain float32 attention of four-dimensional tensors with enough multiplications."""
    examples = [example_of(source) for source in call.args[:3] if isinstance(source, torch.fx.Node)]
    others = [call.kwargs.get(name, operand(call, place)) for name, place in (("attn_mask", 3), ("dropout_p", 4))]
    if len(examples) != 3 or any(others) or call.kwargs.get("enable_gqa"):
        return False
    if any(example.dim() != 4 or example.dtype != torch.float32 for example in examples):
        return False
    query, key, value = (example.shape for example in examples)
    alike = query[:2] == key[:2] == value[:2] and key[2] == value[2] and query[3] == key[3]
    fits = query[3] in HEAD_SIZES and value[3] in HEAD_SIZES and min(query[2], key[2]) >= LEAST_ATTENDED
    return bool(alike and fits and attention_products(call) >= LEAST_ATTENTION)


def attention_products(call: torch.fx.Node) -> int:
    """The multiplications of a call of fused attention, as if nothing were masked."""
    query, value = example_of(operand(call, 0)).shape, example_of(operand(call, 2)).shape
    return int(query[:-1].numel() * value[-2] * (query[-1] + value[-1]))


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
    arithmetic: str,
) -> torch.Tensor:
    """Attention by the kernel; by PyTorch where there is no GPU.

    Args:
        query: (batch, heads, queries, size), float32, in any layout; copied only if its last axis has gaps.
        key: (batch, heads, keys, size).
        value: (batch, heads, keys, value size).
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        turned: whether the output lies in memory with queries before heads.
        arithmetic: of the products (`attention_kernel`).

    Returns:
        (batch, heads, queries, value size).
    """
    output = empty_attention(query, key, value, scale, causal, turned, arithmetic)
    if not query.is_cuda:
        plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
        return output.copy_(plain)
    tensors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (query, key, value)]
    with torch.cuda.device(query.device):
        attend(tensors[0], tensors[1], tensors[2], output, scale, causal, arithmetic)
    return output


def empty_attention(
    query: torch.Tensor,
    _key: torch.Tensor,
    value: torch.Tensor,
    _scale: float,
    _causal: bool,
    turned: bool,
    _arithmetic: str,
) -> torch.Tensor:
    """What `run_attention` returns, without data."""
    batch, heads, queries, _ = query.shape
    if turned:
        return query.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
    return query.new_empty(batch, heads, queries, value.shape[-1])


def define_attention() -> None:
    """Make `run_attention` an operator, so that compilers leave it alone; once in a process."""
    if hasattr(torch.ops.pike_attention, "float32"):
        return
    arguments = "Tensor query, Tensor key, Tensor value, float scale, bool causal, bool turned, str arithmetic"
    torch.library.define("pike_attention::float32", f"({arguments}) -> Tensor")
    torch.library.impl("pike_attention::float32", "CompositeExplicitAutograd", run_attention)
    torch.library.register_fake("pike_attention::float32", empty_attention)


def declines(problem: Problem) -> str:
    """Declines without Triton or TensorFloat-32 units, where 16 bits are allowed, and without large attention."""
    if no_tf32(problem):
        return no_tf32(problem)
    if "triton" not in problem.facts.compilers or _triton_of(problem) < FIRST_TRITON:
        return f"the kernel needs triton {'.'.join(map(str, FIRST_TRITON))} or newer"
    if problem.options.precision is Precision.HALF:
        return "16-bit arithmetic is allowed"
    if problem.graph is None:
        return needs_graph(problem)
    return "" if large_attention(_as_calls(problem)) else "no float32 attention is large, or all of it has masks"


def arithmetic_of(problem: Problem) -> tuple[str, ...]:
    """How the kernel may multiply under a problem's terms."""
    return (EXACT,) if problem.options.precision is Precision.SAME else (SHORT,)


def share_of_attention(problem: Problem) -> float:
    """What to expect as log speedup, by the share of attention in the multiplications of the model."""
    if problem.graph is None or problem.options.precision is Precision.HALF:
        return 0.0
    graph = _as_calls(problem)
    share = 2 * sum(map(attention_products, large_attention(graph))) / max(operations(graph), 1)
    return -math.log(1.0 - SAVED_SHARE[arithmetic_of(problem)[0]] * min(1.0, share))


def _triton_of(problem: Problem) -> tuple[int, ...]:
    """The first two numbers of Triton's version."""
    parts = dict(problem.facts.versions).get("triton", "0.0").split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


def _as_calls(problem: Problem) -> torch.fx.GraphModule:
    """The captured graph with attention as calls, as the transform sees it; found out once."""
    if "attention as calls" not in problem.notes:
        assert problem.graph is not None
        graph = sdpa(copied(problem.graph), problem.args, problem.kwargs)
        problem.notes["attention as calls"] = prefix_attention(graph, problem.args, problem.kwargs)
    found: torch.fx.GraphModule = problem.notes["attention as calls"]
    return found


RECIPE = Recipe(
    "float32_attention",
    "large float32 attention by a kernel of its own on tensor cores",
    Stage.REWRITE,
    float32_attention,
    declines,
    suits=share_of_attention,
    blamed_for=("pike_attention", "attend_block", "OutOfResources"),
    adapt=arithmetic_of,
)
