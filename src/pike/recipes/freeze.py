"""Weights as constants of the compiled code: folded, packed for the kernels once, and fused with what follows.

Knows inductor's `freezing` option, which must be set while Dynamo traces (passing it to `torch.compile(options=...)`
comes too late to have an effect). Holds while the model is lowered; weights changed later are not seen, which is why
`PreparedModel` forgets what it prepared when weights are loaded or moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._inductor.config

from pike.recipes.recipe import Problem, Recipe, Stage, uses


@contextlib.contextmanager
def frozen_weights() -> Iterator[None]:
    """Inductor treats parameters and buffers as constants."""
    with torch._inductor.config.patch(freezing=True):
        yield


def declines(problem: Problem) -> str:
    """Declines without weights, or without a compiler."""
    if next(problem.model.parameters(), None) is None and next(problem.model.buffers(), None) is None:
        return "the model has no weights to freeze"
    return problem.compiler


def suits(problem: Problem) -> float:
    """Packing pays for convolutions; packed linear layers are slower than plain ones on CPUs (measured)."""
    return 0.0 if problem.facts.is_cuda or uses(problem, "conv2d") else -0.3


RECIPE = Recipe(
    "freeze",
    "weights frozen into the compiled code",
    Stage.SETTING,
    frozen_weights,
    declines,
    needs=frozenset({"compile", "inductor", "reduce_overhead", "max_autotune", "compiled_graph"}),
    prior_cpu=0.2,
    prior_cuda=0.1,
    suits=suits,
    blamed_for=("freezing", "frozen", "mkldnn", "constant"),
)
