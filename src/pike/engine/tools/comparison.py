"""Presets compared in the simulator, on all cores.

Knows how a comparison is cut into pieces of work and put together again. Does not know the
simulator's model (`pike.simulate`) or how figures are shown.
"""

import os
import statistics
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from pike import search
from pike.core.errors import UserError
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.simulate import Conditions, Geomean, RunSample, StudyCut, asks_models, fitted, geomean, sample

PIECE = 4
"""Repeats of the suite in one piece of work."""
LEVELS = ("level3", "level5")
LEAST_REPEATS = 2
"""Fewer have no interval."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The terms of a comparison.

    Attributes:
        repeats: of the suite, for each preset.
        tasks: simulated tasks of the suite.
        level: `level3` or `level5`, whose published figures the simulator was fitted to.
        recipe_seeds: give every strategy the recipes that work, free of queries.

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
class SimulatedPreset:
    """The figures of one preset.

    Attributes:
        preset: its name.
        runs: simulated runs, repeats x tasks.
        speedup: clamped geometric mean over the suite.
        usd: mean cost of a run.
        repaired: part of the repaired samples that became valid; None without repairs.
    """

    preset: str
    runs: int
    speedup: Geomean
    usd: float
    repaired: float | None


def comparable() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every preset that can be simulated, and those that lack only their extra."""
    names = [preset.name for preset in search.presets() if asks_models(preset.name)]
    lacking = tuple(name for name in names if _lacks_an_extra(name))
    return tuple(name for name in names if name not in lacking), lacking


def _lacks_an_extra(preset: str) -> bool:
    try:
        search.make(StrategyConfig(preset), Budget(queries=1), 0)
    except UserError:
        return True
    return False


def compare(wanted: RunComparison, processes: int = 0) -> Iterator[SimulatedPreset]:
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
        work: dict[str, list[Future[list[RunSample]]]] = {
            preset: [
                pool.submit(_piece, wanted, preset, range(start, min(start + PIECE, wanted.repeats)))
                for start in starts
            ]
            for preset in wanted.presets
        }
        for preset, pieces in work.items():
            yield _figures(preset, [each for piece in pieces for each in piece.result()])


def _piece(wanted: RunComparison, preset: str, repeats: range) -> list[RunSample]:
    conditions = Conditions(
        StrategyConfig(preset), wanted.queries, wanted.concurrency, recipe_seeds=wanted.recipe_seeds
    )
    return sample(conditions, repeats, (StudyCut(),), fitted(wanted.level), wanted.tasks)


def _figures(preset: str, found: list[RunSample]) -> SimulatedPreset:
    failing = sum(each.failing for each in found)
    return SimulatedPreset(
        preset=preset,
        runs=len(found),
        speedup=geomean(found, 0),
        usd=statistics.fmean(each.usd for each in found),
        repaired=sum(each.repaired for each in found) / failing if failing else None,
    )
