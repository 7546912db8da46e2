"""Everything inside in bfloat16, with casts at the border.

Knows when 16-bit arithmetic is allowed. Does not know how the graph is edited (`precision`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.narrowing import plan, refusal
from pike.recipes.precision import run_inside
from pike.recipes.recipe import Problem, Recipe, Stage


def bf16(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("fragile",)
) -> torch.fx.GraphModule:
    """Weights and intermediate values in bfloat16 but for what `keep` names; inputs and outputs keep their dtype."""
    return run_inside(model, args, kwargs, torch.bfloat16, keep)


def declines(problem: Problem) -> str:
    """Declines unless 16-bit arithmetic is allowed, and on CPUs without bfloat16 instructions."""
    if problem.options.precision is not Precision.HALF:
        return "16-bit arithmetic is not allowed (precision is not half)"
    if not problem.facts.is_cuda and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return "this CPU has no bfloat16 instructions"
    return refusal(problem, torch.bfloat16)


def what_stays(problem: Problem) -> tuple[str, ...]:
    """What stays in float32."""
    return plan(problem, torch.bfloat16).keep


RECIPE = Recipe(
    "bf16",
    "bfloat16 inside, casts at the border",
    Stage.PRECISION,
    bf16,
    declines,
    excludes=frozenset({"half", "autocast_half", "autocast_bf16", "tf32"}),
    prior_cpu=0.4,
    prior_cuda=0.3,
    blamed_for=("BFloat16", "bfloat16"),
    adapt=what_stays,
)
