"""TensorFloat-32 matrix products and convolutions: tensor cores with 10 bits of mantissa.

Knows torch's switches and that they are process-wide, so they are on only while the model is built
and runs. A recorded call has its kernels already, so there they are on only while it is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from pike.core.verdict.evaluation import Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.precision.sixteen_bits import NAMES_OF_16_BITS
from pike.recipes.precision.tensor_cores import no_tf32


@contextlib.contextmanager
def tf32_products() -> Iterator[None]:
    """Matrix products and convolutions of float32 tensors may use TensorFloat-32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = True, True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def declines(problem: RecipeContext) -> str:
    """Declines without a GPU of compute capability 8.0, and where float32 must stay float32."""
    if no_tf32(problem.facts):
        return no_tf32(problem.facts)
    if problem.options.precision is Precision.SAME:
        return "TensorFloat-32 is not allowed (precision is same)"
    return ""


RECIPE = Recipe(
    "tf32",
    "TensorFloat-32 products",
    RecipeStage.SETTING,
    tf32_products,
    declines,
    while_running=True,
    recordable=True,
    excludes=NAMES_OF_16_BITS,
    prior_cuda=0.35,
    blamed_for=("tf32",),
)
