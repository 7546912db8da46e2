"""torch.compile with its default mode.

Knows one call. Does not know the inductor options (`freeze` is a setting of its own).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.recipe import Problem, Recipe, Stage


def compile_default(model: torch.nn.Module) -> Any:
    """The model compiled for exactly these shapes."""
    return torch.compile(model, dynamic=False)


def declines(problem: Problem) -> str:
    """Declines without a compiler."""
    return problem.compiler


RECIPE = Recipe(
    "compile",
    "torch.compile",
    Stage.LOWER,
    compile_default,
    declines,
    prior_cpu=0.4,
    prior_cuda=0.3,
    blamed_for=("inductor", "dynamo", "torch.compile", "CppCompileError"),
)
