"""A named strategy: options with a name, and a way to build a strategy from them.

Knows the record that every family of strategies registers. Does not know any family (`catalogue`
lists them).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pike.core.settings.budget import Budget
from pike.core.step import Role, Strategy
from pike.search.composite import CompositeStrategy
from pike.search.options.search import SearchOptions

O = TypeVar("O")  # noqa: E741 - the options record of a family


@dataclass(frozen=True, slots=True)
class Preset(Generic[O]):
    """A point in the option space of a family of strategies.

    Attributes:
        name: what the user writes, `family` or `family:variant`.
        options: a frozen record; a user's settings are merged over it.
        most_queries: the most queries that a run with these options and this budget asks for.
        own_models: roles that need a model of their own, or the preset means nothing.
    """

    name: str
    summary: str
    options: O
    build: Callable[[O, Budget, int], Strategy]
    most_queries: Callable[[O, Budget], int] = lambda _, budget: budget.queries
    own_models: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a strategy beside answers to its steps.

    Attributes:
        recipes_write: recipes answer every step, whatever models the user chose.
        recipe_seeds: valid recipes enter the library before the first query.
        profile: the original and valid candidates are profiled.
        daring: prompts ask for large steps and show worked examples.
        repairs: how many repairs a refused candidate may get.
    """

    recipes_write: bool = False
    recipe_seeds: bool = False
    profile: bool = False
    daring: bool = False
    repairs: int = 0


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A preset for people and for checks before a run.

    Attributes:
        base: the preset it is compared with: the plain one of its family, for that one the default
            strategy, for a strategy of a configuration the preset it builds on. Empty for the
            default strategy and for a family with options of another type.
        differences: (option, value) pairs that differ from `base`.
        own_models: roles that must be given a model of their own.
    """

    name: str
    summary: str
    base: str
    differences: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    own_models: tuple[Role, ...]


AnyPreset = Preset[Any]
Point = Preset[SearchOptions]

MOST_FREE_STEPS = 300
"""The most steps of a run whose steps cost no query and whose query budget is zero."""


def point(name: str, summary: str, options: SearchOptions, own_models: tuple[Role, ...] = ()) -> Point:
    """The preset of this name that is a point of the option space."""
    return Preset(
        name, summary, options, _build, lambda chosen, budget: chosen.most_queries(budget.queries), own_models
    )


def _build(options: SearchOptions, budget: Budget, run_seed: int) -> CompositeStrategy:
    queries = (budget.queries or MOST_FREE_STEPS) if options.free else budget.queries
    return CompositeStrategy(options, queries, run_seed)
