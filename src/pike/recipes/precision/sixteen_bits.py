"""Everything inside in float16 or bfloat16, with casts at the border.

Knows when 16-bit arithmetic is allowed, and which devices have it. Does not know how a graph is
edited (`casts`), nor how what stays in float32 is found (`narrowing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.capture.work import largest_bytes, operations
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.precision.casts import run_inside
from pike.recipes.precision.narrowing import plan, refusal

NAMES_OF_16_BITS = frozenset({"half", "bf16", "autocast_half", "autocast_bf16"})
"""The recipes that compute in 16 bits, for those that cannot stand beside them."""


_LEAST_SAVED_SECONDS, _BYTES_PER_SECOND, _RATE_OF_A_MULTIPROCESSOR = 8e-6, 3e12, 4.4e11
"""A launch and a cast at the border take some microseconds; what an H100 reads, and computes in float32."""


def half(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("fragile",)
) -> torch.fx.GraphModule:
    """Weights and intermediate values in float16, except what `keep` names."""
    return run_inside(model, args, kwargs, torch.float16, keep)


def bf16(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("fragile",)
) -> torch.fx.GraphModule:
    """Weights and intermediate values in bfloat16, except what `keep` names."""
    return run_inside(model, args, kwargs, torch.bfloat16, keep)


def not_allowed(problem: RecipeContext, dtype: torch.dtype) -> str:
    """Why a problem cannot be computed in a 16-bit dtype, empty where terms and device allow it."""
    if problem.options.precision is not Precision.HALF:
        return "16-bit arithmetic is not allowed (precision is not half)"
    if problem.facts.is_cuda:
        return ""
    if dtype == torch.float16:
        return "float16 is emulated on most CPUs; bf16 is the 16-bit format there"
    return "" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "this CPU has no bfloat16 instructions"


def saved_seconds(problem: RecipeContext) -> float:
    """About the most seconds that 16 bits can save in a call on a GPU: all products, half of the weights' bytes and of
    the largest value's.

    Infinite where that is not known: without a graph, and with recurrent layers, each of which is one operator.
    """
    if problem.graph is None or problem.uses("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return float("inf")
    weights = sum(weight.numel() * weight.element_size() for weight in problem.model.parameters())
    moved = (weights + largest_bytes(problem.graph)) / 2
    rate = _RATE_OF_A_MULTIPROCESSOR * (problem.facts.multiprocessors or 100)
    return operations(problem.graph) / rate + moved / _BYTES_PER_SECOND


def unless_small(prior: float) -> Callable[[RecipeContext], float]:
    """Takes a promise back on a GPU where casts cost more than 16 bits save; what promised most still comes first.

    Only on GPUs that read and compute about as fast as the H100 on which that was seen. On six such tasks
    (`level3-pike` 49, 33, 4, 2, 48 and 1) the accumulated winner at `same` took 0.56 to 1.19 times as long as that at
    `half`, each in a session of its own (docs/results/level3-pike-h100.md).

    Args:
        prior: the recipe's expected log speedup on a GPU, which is taken back.

    Returns:
        What a recipe's `suits` adds to it for a problem.
    """

    def suits(problem: RecipeContext) -> float:
        is_fast = problem.facts.is_cuda and int(problem.facts.capability.partition(".")[0] or 0) >= 9
        return -prior - 0.05 * (1.0 - prior) if is_fast and saved_seconds(problem) < _LEAST_SAVED_SECONDS else 0.0

    return suits


HALF_RECIPE = Recipe(
    "half",
    "float16 inside, casts at the border",
    RecipeStage.PRECISION,
    half,
    lambda problem: not_allowed(problem, torch.float16) or refusal(problem, torch.float16),
    prior_cuda=0.55,
    suits=unless_small(0.55),
    blamed_for=("Half", "float16", "overflow", "inf"),
    adapt=lambda problem: plan(problem, torch.float16).keep,
)

BF16_RECIPE = Recipe(
    "bf16",
    "bfloat16 inside, casts at the border",
    RecipeStage.PRECISION,
    bf16,
    lambda problem: not_allowed(problem, torch.bfloat16) or refusal(problem, torch.bfloat16),
    prior_cpu=0.4,
    prior_cuda=0.3,
    suits=unless_small(0.3),
    blamed_for=("BFloat16", "bfloat16"),
    adapt=lambda problem: plan(problem, torch.bfloat16).keep,
)
