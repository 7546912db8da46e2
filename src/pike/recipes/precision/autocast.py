"""16 bits where autocast deems them safe: matrix products and convolutions; softmax and norms stay
in float32.

Knows torch.autocast. Needs no graph, so it also serves models that cannot be captured. Does not
know when 16-bit arithmetic is allowed (`sixteen_bits`).
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from pike.recipes.capture.exclusive import exclusively
from pike.recipes.framework.context import RecipeContext, in_words
from pike.recipes.framework.prepared import own_copy
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.precision.sixteen_bits import not_allowed, unless_small


class Autocast(torch.nn.Module):
    """Runs a module under autocast and gives outputs the dtypes that the module has without it."""

    def __init__(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        self.device_type = next((leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)), "cpu")
        with torch.no_grad():
            outputs = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
        self.dtypes = [getattr(value, "dtype", None) for value in outputs]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's outputs, computed in the narrower dtype where autocast deems it safe."""
        with torch.autocast(self.device_type, self.dtype):
            outputs = self.model(*args, **kwargs)
        leaves, structure = torch.utils._pytree.tree_flatten(outputs)
        cast = [leaf if dtype is None else leaf.to(dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        return torch.utils._pytree.tree_unflatten(cast, structure)


def autocast_half(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The model under float16 autocast; outputs keep their dtype."""
    return Autocast(model, args, kwargs, torch.float16).eval()


def autocast_bf16(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The model under bfloat16 autocast; outputs keep their dtype."""
    return Autocast(model, args, kwargs, torch.bfloat16).eval()


def declines_bf16(problem: RecipeContext) -> str:
    """Declines where 16 bits are not allowed, and where the model does not run under autocast."""
    declined = not_allowed(problem, torch.bfloat16)
    if declined or problem.facts.is_cuda:
        return declined
    try:
        with torch.no_grad(), exclusively(), torch.autocast("cpu", torch.bfloat16):
            copy.deepcopy(problem.model)(*own_copy(problem.args), **own_copy(problem.kwargs))
    except TimeoutError:
        raise
    except Exception as error:  # operators outside autocast's lists raise where dtypes mix
        return f"the model does not run under autocast: {in_words(error)}"
    return ""


AUTOCAST_HALF_RECIPE = Recipe(
    "autocast_half",
    "float16 autocast, outputs cast back",
    RecipeStage.PRECISION,
    autocast_half,
    lambda problem: not_allowed(problem, torch.float16),
    prior_cuda=0.35,
    suits=unless_small(0.35),
    blamed_for=("Half", "float16", "autocast"),
)

AUTOCAST_BF16_RECIPE = Recipe(
    "autocast_bf16",
    "bfloat16 autocast, outputs cast back",
    RecipeStage.PRECISION,
    autocast_bf16,
    declines_bf16,
    prior_cpu=0.3,
    prior_cuda=0.2,
    suits=unless_small(0.2),
    blamed_for=("BFloat16", "bfloat16", "autocast"),
)
