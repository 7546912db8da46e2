"""Convolutions in full float32, as eager runs them where a library's own choice is a kernel without
TensorFloat-32.

By default torch allows TensorFloat-32 in convolutions, and the libraries decide for each shape and
memory format whether they use it. A rewrite that changes the format then changes the arithmetic,
and an answer misses a budget that the original's own float32 answer sets. Knows torch's switch and
that it is process-wide, so it is off only while the model is built and runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Convolutions of float32 tensors use no TensorFloat-32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def declines(problem: RecipeContext) -> str:
    """Declines on CPUs, where 16 bits are allowed, and without a convolution."""
    if not problem.facts.is_cuda:
        return "a CPU's convolutions have no TensorFloat-32"
    if problem.options.precision is Precision.HALF:
        return "16-bit arithmetic is allowed"
    if problem.no_graph or problem.uses("conv1d", "conv2d", "conv3d", "convolution"):
        return problem.no_graph
    return "there is no convolution"


RECIPE = Recipe(
    "full_float32",
    "convolutions without TensorFloat-32",
    RecipeStage.SETTING,
    full_float32,
    declines,
    while_running=True,
    restores=True,
    excludes=frozenset({"tf32"}),
    prior_cuda=-0.3,
)
