"""Presets compared in the simulator, on all cores.

Knows how a comparison is cut into pieces of work and put together again. Does not know the simulator's model
(`pike.search.simulate`) or how figures are shown.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from pike import search
from pike.core.budget import Budget
from pike.core.config import StrategyConfig
from pike.core.errors import UserError
from pike.search.simulate import Conditions, Cut, Geomean, Sample, asks_models, geomean, samples

PIECE = 4
"""Repeats of the suite in one piece of work."""
LEVELS = ("level3", "level5")
LEAST_REPEATS = 2
"""Fewer have no interval."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared.

    Attributes:
        presets: strategies by name.
        repeats: of the suite, for each preset.
        queries: the query budget of a run.
        tasks: simulated tasks of the suite.
        level: `level3` or `level5`, whose published figures the simulator was fitted to.
        recipe_seeds: give every strategy the recipes that work, free of queries.
        concurrency: steps in flight at once.

    Raises:
        UserError: a value cannot be used.
    """

    presets: tuple[str, ...]
    repeats: int = 10
    queries: int = 300
    tasks: int = 30
    level: str = "level3"
    recipe_seeds: bool = False
    concurrency: int = 20

    def __post_init__(self) -> None:
        for name in self.presets:
            if not asks_models(name):
                raise UserError(
                    f"The strategy {name} asks no model by itself: there is nothing to simulate, leave it out"
                )
        if self.level not in LEVELS:
            raise UserError(f"Unknown level '{self.level}'; known: {', '.join(LEVELS)}")
        least = {"repeats": LEAST_REPEATS, "queries": 1, "tasks": 1, "concurrency": 1}
        for field, value in least.items():
            if getattr(self, field) < value:
                raise UserError(f"A simulation needs {field} of at least {value}, not {getattr(self, field)}")


@dataclass(frozen=True, slots=True)
class Simulated:
    """What one preset came to.

    Attributes:
        preset: its name.
        runs: simulated runs, repeats x tasks.
        speedup: clamped geometric mean over the suite.
        usd: mean cost of a run.
        repaired: part of the failing samples given to a role that repairs that became valid; None where there are none.
    """

    preset: str
    runs: int
    speedup: Geomean
    usd: float
    repaired: float | None


def comparable() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every preset that can be simulated, and those that could be if their extra were installed."""
    names = [preset.name for preset in search.presets() if asks_models(preset.name)]
    lacking = tuple(name for name in names if _lacks_an_extra(name))
    return tuple(name for name in names if name not in lacking), lacking


def _lacks_an_extra(preset: str) -> bool:
    try:
        search.make(StrategyConfig(preset), Budget(queries=1), 0)
    except UserError:
        return True
    return False


def compare(wanted: Comparison, processes: int = 0) -> Iterator[Simulated]:
    """Simulate every preset, in the order given, each as soon as it is complete.

    Args:
        wanted: what is compared.
        processes: worker processes; 0 for one for each core, 1 for none beside this one.

    Raises:
        UserError: a preset needs an extra that is not installed.
    """
    count = processes or os.cpu_count() or 1
    if count == 1:
        for preset in wanted.presets:
            yield _figures(preset, _piece(wanted, preset, range(wanted.repeats)))
        return
    starts = range(0, wanted.repeats, PIECE)
    # Spawned, because a process that has threads must not be forked.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        work: dict[str, list[Future[list[Sample]]]] = {
            preset: [
                pool.submit(_piece, wanted, preset, range(start, min(start + PIECE, wanted.repeats)))
                for start in starts
            ]
            for preset in wanted.presets
        }
        for preset, pieces in work.items():
            yield _figures(preset, [sample for piece in pieces for sample in piece.result()])


def _piece(wanted: Comparison, preset: str, repeats: range) -> list[Sample]:
    conditions = Conditions(
        StrategyConfig(preset), wanted.queries, wanted.concurrency, recipe_seeds=wanted.recipe_seeds
    )
    return samples(conditions, repeats, (Cut(),), wanted.tasks, wanted.level)


def _figures(preset: str, found: list[Sample]) -> Simulated:
    failing = sum(sample.failing for sample in found)
    return Simulated(
        preset=preset,
        runs=len(found),
        speedup=geomean(found, 0),
        usd=statistics.fmean(sample.usd for sample in found),
        repaired=sum(sample.repaired for sample in found) / failing if failing else None,
    )
