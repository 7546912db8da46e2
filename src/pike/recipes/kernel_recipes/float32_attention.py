"""Recipe `float32_attention`: attention in float32 on tensor cores, with the accuracy of float32.

On an H200 PyTorch's own fused kernel for float32 reaches 20 to 44 TFLOPS. This one reaches 30 to 60
with less error (docs/experiments/2026-11-23-h200-float32-attention.md).

Knows calls of `scaled_dot_product_attention` in the graph without dropout, unmasked or causal, with
heads of ordinary sizes and enough work. `sdpa` and `prefix_attention` first turn written-out or
block-masked attention into such calls. Each number becomes a sum of bfloat16 numbers: three where
float32 must stay float32, two where fewer bits are allowed. Does not know the kernel
(`attention_kernel`) nor where it pays (`attention_operator`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.capture.graph import example_of, finish_edit, nodes_calling, operand
from pike.recipes.capture.work import operations
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.attention_kernel import AttentionTerms
from pike.recipes.kernels.attention_operator import attention_before, fits_kernel
from pike.recipes.precision.narrowing import copied
from pike.recipes.precision.tensor_cores import EXACT, SHORT, arithmetic_of, no_kernel
from pike.recipes.rewrites.prefix_attention import prefix_attention
from pike.recipes.rewrites.sdpa import sdpa

LEAST_ATTENTION = 1 << 30
"""With fewer multiplications in both products of a call there is little to gain: a guess."""
SAVED_SHARE = {EXACT: 0.38, SHORT: 0.6}
"""The share of attention's time that is saved, the median over the shapes that were measured."""


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
    for call in large_attention(graph):
        query, key, value = (operand(call, place) for place in range(3))
        scale: Any = call.kwargs.get("scale")
        scale = example_of(query).shape[-1] ** -0.5 if scale is None else scale
        causal = bool(call.kwargs.get("is_causal", operand(call, 5)))
        result = attention_before(call, (query, key, value), AttentionTerms(float(scale), causal, False, keep[0]))
        call.replace_all_uses_with(result)
        graph.graph.erase_node(call)  # it might draw numbers, so it is never dead code
    finish_edit(graph)
    return graph


def large_attention(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The calls of fused attention that the kernel can take and that have enough work for it."""
    return [call for call in nodes_calling(graph, "scaled_dot_product_attention") if is_large_attention(call)]


def is_large_attention(call: torch.fx.Node) -> bool:
    """Whether one call is plain float32 attention of 4-dimensional tensors with enough work."""
    examples = [example_of(source) for source in call.args[:3] if isinstance(source, torch.fx.Node)]
    others = [call.kwargs.get(name, operand(call, place)) for name, place in (("attn_mask", 3), ("dropout_p", 4))]
    if len(examples) != 3 or any(others) or call.kwargs.get("enable_gqa"):
        return False
    if any(example.dtype != torch.float32 for example in examples):
        return False
    shapes = [example.shape for example in examples]
    return fits_kernel(shapes[0], shapes[1], shapes[2]) and attention_products(call) >= LEAST_ATTENTION


def attention_products(call: torch.fx.Node) -> int:
    """The multiplications of a call of fused attention, as if nothing were masked."""
    query, value = example_of(operand(call, 0)).shape, example_of(operand(call, 2)).shape
    return int(query[:-1].numel() * value[-2] * (query[-1] + value[-1]))


def declines(problem: RecipeContext) -> str:
    """Declines without Triton or TensorFloat-32 units, in 16 bits, and without large attention."""
    if no_kernel(problem.facts):
        return no_kernel(problem.facts)
    if problem.options.precision is Precision.HALF:
        return "16-bit arithmetic is allowed"
    if problem.no_graph:
        return problem.no_graph
    return "" if large_attention(_as_calls(problem)) else "no float32 attention is large, or all of it has masks"


def share_of_attention(problem: RecipeContext) -> float:
    """The expected log speedup, by the share of attention in the model's multiplications."""
    graph = _as_calls(problem)
    share = 2 * sum(map(attention_products, large_attention(graph))) / max(operations(graph), 1)
    return -math.log(1.0 - SAVED_SHARE[arithmetic_of(problem.options.precision)] * min(1.0, share))


def _as_calls(problem: RecipeContext) -> torch.fx.GraphModule:
    """The captured graph with attention as calls, as the transform sees it."""
    if "attention as calls" not in problem.notes:
        assert problem.graph is not None
        graph = sdpa(copied(problem.graph), problem.args, problem.kwargs)
        problem.notes["attention as calls"] = prefix_attention(graph, problem.args, problem.kwargs)
    found: torch.fx.GraphModule = problem.notes["attention as calls"]
    return found


RECIPE = Recipe(
    "float32_attention",
    "large float32 attention by a kernel of its own on tensor cores",
    RecipeStage.REWRITE,
    float32_attention,
    declines,
    suits=share_of_attention,
    blamed_for=("pike_attention", "attention_fwd", "OutOfResources"),
    adapt=lambda problem: (arithmetic_of(problem.options.precision),),
)
