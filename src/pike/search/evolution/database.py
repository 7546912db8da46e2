"""OpenEvolve's database without clock, entropy, log or an order that hashes decide (ADR 0007).

Knows which names `openevolve.database` reads from its surroundings, and replaces them in a second
instance of the module; the installed one stays untouched. Does not know the use of the database.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, MutableSet
from functools import cache
from itertools import count
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

from pike.core.errors import UserError, needing
from pike.search.options.library import Islands
from pike.search.options.selection import ByRatio

MODULE = "openevolve.database"
REMEMBERED_DISTANCES = 64
"""Distances that the database keeps; it copies all of them at every solution."""


class Ordered(MutableSet[str]):
    """A set in order of insertion, so that a draw from it is the same in every process."""

    def __init__(self, items: Iterable[str] = ()) -> None:
        self._items = dict.fromkeys(items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, value: str) -> None:
        """Put `value` last unless it is there."""
        self._items[value] = None

    def discard(self, value: str) -> None:
        """Take `value` out if it is there."""
        self._items.pop(value, None)

    def copy(self) -> Ordered:
        """Another set with the same items in the same order."""
        return Ordered(self._items)

    def intersection_update(self, other: Iterable[str]) -> None:
        """Keep only what is in `other` too."""
        self._items = {item: None for item in self._items if item in other}


class Source(str):
    """A source that is quick to compare by length, lines and distinct characters.

    It is walked by its distinct characters, each once, and knows its lines; everything else is as
    in any string.
    """

    __slots__ = ("_letters", "_lines")
    _letters: tuple[str, ...]
    _lines: int

    def __new__(cls, text: str) -> Source:
        """The source `text`."""
        source = super().__new__(cls, text)
        source._letters = tuple(sorted(set(text)))
        source._lines = text.count("\n")
        return source

    def __iter__(self) -> Iterator[str]:
        return iter(self._letters)

    def count(self, part: str, *within: Any) -> int:
        """How often `part` stands in it."""
        return self._lines if part == "\n" and not within else super().count(part, *within)


def open_database(options: Islands, ratio: ByRatio, rng: random.Random, archive: Any) -> tuple[Any, ModuleType]:
    """A new, empty `ProgramDatabase` that draws from `rng`, and the instance of its module.

    Args:
        archive: makes the database's `archive` hook from the module, None for its own rule.

    Raises:
        UserError: the extra is not installed.
    """
    module = _instance(rng)
    config = module.DatabaseConfig(
        db_path=None,
        log_prompts=False,
        population_size=options.population,
        archive_size=options.archive,
        num_islands=options.islands,
        elite_selection_ratio=options.elite_ratio,
        exploration_ratio=ratio.exploration,
        exploitation_ratio=ratio.exploitation,
        feature_dimensions=["complexity", "diversity"],
        feature_bins=options.bins,
        migration_interval=options.migration_interval,
        migration_rate=options.migration_rate,
        random_seed=None,  # a seed would be planted in Python's global generator
    )
    database = module.ProgramDatabase(config, module.PopulationStrategy(archive=archive and archive(module)))
    database.islands = [Ordered() for _ in range(options.islands)]
    database.archive = Ordered()
    database.diversity_cache_size = REMEMBERED_DISTANCES
    return database, module


def _instance(rng: random.Random) -> Any:
    code = database_code()
    module = ModuleType("pike_openevolve_database")
    exec(code, vars(module))
    log = logging.Logger(module.__name__)
    log.disabled = True
    vars(module).update(
        random=rng,
        time=SimpleNamespace(time=count(1.0).__next__),
        uuid=SimpleNamespace(uuid4=map("copy-{}".format, count(1)).__next__),
        # One level deep is enough: the copied values are flat, or read only if a hook fails.
        copy=SimpleNamespace(deepcopy=dict),
        logger=log,
        Program=_timeless(module),
    )
    return module


@cache
def database_code() -> CodeType:
    """The code of OpenEvolve's database module, read once in a process.

    Raises:
        UserError: the extra is not installed.
    """
    from importlib import import_module

    with needing("The evolutionary library", "openevolve"):
        spec = import_module(MODULE).__spec__
    code = spec.loader.get_code(MODULE) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
    if code is None:
        raise UserError("The code of the package openevolve cannot be read: install it from a wheel")
    return code  # type: ignore[no-any-return]


def _timeless(module: ModuleType) -> type:
    """The module's `Program`, but one that does not take the time of its making."""

    class Program(module.Program):  # type: ignore[name-defined,misc]
        def __init__(self, *given: Any, timestamp: float = 0.0, **named: Any) -> None:
            super().__init__(*given, timestamp=timestamp, **named)

    return Program
