"""float16 where autocast deems it safe: matrix products and convolutions; softmax and norms stay in float32.

Knows when 16-bit arithmetic is allowed. Needs no graph, so it also serves models that cannot be captured.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.evaluation import Precision
from pike.recipes.autocasting import Autocast
from pike.recipes.recipe import Problem, Recipe, Stage


def autocast_half(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The model under float16 autocast; outputs keep their dtype."""
    return Autocast(model, args, kwargs, torch.float16).eval()


def declines(problem: Problem) -> str:
    """Declines unless 16-bit arithmetic is allowed, and on CPUs, which emulate float16."""
    if problem.options.precision is not Precision.HALF:
        return "16-bit arithmetic is not allowed (precision is not half)"
    return "" if problem.facts.is_cuda else "float16 is emulated on most CPUs; bf16 is the 16-bit format there"


RECIPE = Recipe(
    "autocast_half",
    "float16 autocast, outputs cast back",
    Stage.PRECISION,
    autocast_half,
    declines,
    excludes=frozenset({"half", "bf16", "autocast_bf16", "tf32"}),
    prior_cuda=0.35,
    blamed_for=("Half", "float16", "autocast"),
)
