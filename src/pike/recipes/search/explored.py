"""What one exploration finds out about a problem, before any composition is written.

Knows the record of it: which recipes apply, what each should bring, and what they want written into
a candidate. The record can be kept and used on another machine, as long as device, terms and the
version of PyTorch are the same. Does not know how compositions are chosen from it (`space`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.registry import RECIPES
from pike.recipes.search.composition import legal_compositions
from pike.recipes.search.space import Space

_EXAMPLE_SEED = 1


class RecipeInputs(Protocol):
    """The arguments of one call (what `judge.reference` draws)."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        ...

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments."""
        ...


class RecipeReference(Protocol):
    """The original model as recipes see it (what `judge.reference` loads)."""

    @property
    def model(self) -> torch.nn.Module:
        """The model, in eval mode, on the CPU."""
        ...

    @property
    def draw(self) -> Callable[[int], RecipeInputs]:
        """Draws inputs from a seed."""
        ...


@dataclass(frozen=True)
class Explored:
    """One problem, explored.

    Attributes:
        declined: for every recipe, why it does not apply; empty where it does.
        gains: the expected log speedup of every recipe.
        adapted: what recipes that apply want written into a candidate, by their names.
        seconds: what every recipe should add to the time until a verdict.
    """

    declined: dict[str, str]
    gains: dict[str, float]
    adapted: dict[str, tuple[str, ...]]
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Explored:
        """The exploration of a `record`, for example read from a JSON file."""
        adapted = {name: tuple(keep) for name, keep in record["adapted"].items()}
        return cls(dict(record["declined"]), dict(record["gains"]), adapted, dict(record.get("seconds", {})))

    @classmethod
    def nothing(cls, why: str) -> Explored:
        """The exploration of a problem at which no recipe could look."""
        return cls({recipe.name: why for recipe in RECIPES}, {recipe.name: 0.0 for recipe in RECIPES}, {})

    @property
    def record(self) -> dict[str, Any]:
        """The exploration in plain values, to be kept as JSON."""
        adapted = {name: list(keep) for name, keep in self.adapted.items()}
        return {"declined": self.declined, "gains": self.gains, "adapted": adapted, "seconds": self.seconds}

    @property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(self.record)

    @property
    def applicable(self) -> tuple[str, ...]:
        """The recipes that apply."""
        return tuple(name for name, reason in self.declined.items() if not reason)

    @cached_property
    def space(self) -> Space:
        """The legal compositions, ranked."""
        return Space(legal_compositions(self.applicable), self.gains, self.seconds)


def problem_of(reference: RecipeReference, facts: DeviceFacts, options: EvaluateOptions) -> RecipeContext:
    """The context in which recipes look at a model, always with the same example call."""
    inputs = reference.draw(_EXAMPLE_SEED)
    captures = tuple(recipe.capture for recipe in RECIPES if recipe.capture)
    savings = tuple(recipe.saving for recipe in RECIPES if recipe.saving)
    return RecipeContext(reference.model, inputs.args, inputs.kwargs, facts, options, captures, savings)


def explore(problem: RecipeContext) -> Explored:
    """Capture the model and ask every recipe; takes seconds, minutes for large models."""
    looks = {recipe.name: look(recipe, problem) for recipe in RECIPES}
    return Explored(
        {name: found.declined for name, found in looks.items()},
        {name: found.gain for name, found in looks.items()},
        {name: found.keep for name, found in looks.items() if found.keep is not None},
        {name: found.seconds for name, found in looks.items()},
    )
