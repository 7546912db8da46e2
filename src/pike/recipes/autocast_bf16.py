"""bfloat16 where autocast deems it safe: matrix products and convolutions; softmax and norms stay in float32.

Knows when 16-bit arithmetic is allowed. Needs no graph, so it also serves models that cannot be captured.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.autocasting import Autocast
from pike.recipes.recipe import Problem, Recipe, Stage


def autocast_bf16(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The model under bfloat16 autocast; outputs keep their dtype."""
    return Autocast(model, args, kwargs, torch.bfloat16).eval()


def declines(problem: Problem) -> str:
    """Declines unless 16-bit arithmetic is allowed, and on CPUs without bfloat16 instructions."""
    if problem.options.precision is not Precision.HALF:
        return "16-bit arithmetic is not allowed (precision is not half)"
    if not problem.facts.is_cuda and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return "this CPU has no bfloat16 instructions"
    return ""


RECIPE = Recipe(
    "autocast_bf16",
    "bfloat16 autocast, outputs cast back",
    Stage.PRECISION,
    autocast_bf16,
    declines,
    excludes=frozenset({"half", "bf16", "autocast_half", "tf32"}),
    prior_cpu=0.3,
    prior_cuda=0.2,
    blamed_for=("BFloat16", "bfloat16", "autocast"),
)
