"""Everything inside in float16, with casts at the border.

Knows when 16-bit arithmetic is allowed. Does not know how the graph is edited (`precision`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.narrowing import plan, refusal
from pike.recipes.precision import run_inside
from pike.recipes.recipe import Problem, Recipe, Stage


def half(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("fragile",)
) -> torch.fx.GraphModule:
    """Weights and intermediate values in float16 but for what `keep` names; inputs and outputs keep their dtype."""
    return run_inside(model, args, kwargs, torch.float16, keep)


def declines(problem: Problem) -> str:
    """Declines unless 16-bit arithmetic is allowed, and on CPUs, which emulate float16."""
    if problem.options.precision is not Precision.HALF:
        return "16-bit arithmetic is not allowed (precision is not half)"
    if not problem.facts.is_cuda:
        return "float16 is emulated on most CPUs; bf16 is the 16-bit format there"
    return refusal(problem, torch.float16)


def what_stays(problem: Problem) -> tuple[str, ...]:
    """What stays in float32."""
    return plan(problem, torch.float16).keep


RECIPE = Recipe(
    "half",
    "float16 inside, casts at the border",
    Stage.PRECISION,
    half,
    declines,
    excludes=frozenset({"bf16", "autocast_half", "autocast_bf16", "tf32"}),
    prior_cuda=0.55,
    blamed_for=("Half", "float16", "overflow", "inf"),
    adapt=what_stays,
)
