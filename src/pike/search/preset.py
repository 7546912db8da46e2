"""What a named strategy is: options with a name, and how a strategy is built from them.

Knows the shape that every family of strategies registers itself in. Does not know any family (`catalogue` lists
them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pike.core.budget import Budget
from pike.core.step import Role, Strategy

O = TypeVar("O")  # noqa: E741 - the options record of a family


@dataclass(frozen=True, slots=True)
class Preset(Generic[O]):
    """A point in the option space of a family of strategies.

    Attributes:
        name: what the user writes, `family` or `family:variant`.
        summary: one line for lists.
        options: a frozen record; a user's settings are merged over it.
        build: makes a strategy from options, budget and run seed.
        most_queries: the most queries a run with these options and this budget asks for.
        own_models: roles that need a model of their own beside the main one, or the preset means nothing.
    """

    name: str
    summary: str
    options: O
    build: Callable[[O, Budget, int], Strategy]
    most_queries: Callable[[O, Budget], int]
    own_models: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a strategy asks of the engine beside its steps.

    Attributes:
        recipes_write: recipes answer every step, whatever models the user chose.
        recipe_seeds: valid recipes enter the library before the first query.
    """

    recipes_write: bool = False
    recipe_seeds: bool = False


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A preset for people and for checks before a run.

    Attributes:
        name: what the user writes.
        summary: one line.
        base: what it is compared with: the plain preset of its family, for that one the default strategy, for a
            strategy of a configuration the preset it builds on; empty for the default strategy and for one whose
            options are others.
        differences: (option, value) pairs that differ from `base`.
        options: every (option, value) pair.
        own_models: roles that must be given a model of their own.
    """

    name: str
    summary: str
    base: str
    differences: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    own_models: tuple[Role, ...]


AnyPreset = Preset[Any]
