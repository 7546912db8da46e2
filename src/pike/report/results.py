"""What results of contenders add up to: for each suite and precision one table.

Knows arithmetic over results. Does not know files (`store`) nor how a table looks (`results_page`, the command line).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pike.core.evaluation import FASTER_MARGIN, Precision
from pike.core.results import Contender, ContenderKind, Result
from pike.report.standings import clamped_geomean, unclamped_geomean

_EAGER = "eager"
_ORDER = (ContenderKind.RECIPES, ContenderKind.BASELINE, ContenderKind.PUBLISHED, ContenderKind.RUN)


@dataclass(frozen=True, slots=True)
class Column:
    """One contender on one suite at one precision.

    Attributes:
        contender: who.
        clamped: geomean over the tasks that were tried; one without a valid candidate, or slower than eager, counts as
            1. None where nothing was tried.
        raw: geomean over the valid candidates as they are.
        tried: tasks with a verdict.
        valid: tasks with a valid candidate.
        slower: valid candidates whose whole 95 % interval lies below eager's speed by more than one percent.
        build_seconds: median time to build.
        minutes: that measuring it on all these tasks took, one after the other; searches for its candidates count.
        missing: why tasks were not measured, each reason once.
        behind: how many times as long as the recipes' candidates its own take, in milliseconds: the geomean over the
            tasks in `compared`. None for recipes, and where no task has a valid candidate of both. Where recipes gave
            the original back, eager's time beside the candidate stands for theirs.
        compared: how many tasks that is.
    """

    contender: Contender
    clamped: float | None
    raw: float | None
    tried: int
    valid: int
    slower: int
    build_seconds: float | None
    minutes: float
    missing: tuple[str, ...]
    behind: float | None = None
    compared: int = 0


@dataclass(frozen=True, slots=True)
class ResultsTable:
    """All contenders on one suite on one kind of device at one precision.

    Attributes:
        suite: the part of the tasks' ids before the slash, `:small` behind it for small variants.
        device: its name; figures of different devices never stand in one table.
        precision: the declared arithmetic.
        tasks: ids, in the order of their numbers.
        columns: recipes first, then baselines, published solutions and other runs.
        cells: the result of a task and a contender, by (id, name).
    """

    suite: str
    device: str
    precision: Precision
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: dict[tuple[str, str], Result]

    def eager_ms(self, task: str) -> float | None:
        """Eager execution's time as the judge measured it: the median over everything that was timed against it."""
        times = [
            result.evaluation.timing.reference_ms
            for (id_, _), result in self.cells.items()
            if id_ == task and result.evaluation and result.evaluation.timing
        ]
        return statistics.median(times) if times else None

    def all_counted(self, column: Column) -> float:
        """A column's clamped geomean over all tasks of the table, with 1 for each that has no verdict."""
        return 1.0 if column.clamped is None else float(column.clamped ** (column.tried / len(self.tasks)))

    def leads(self, recipes: Column) -> list[float]:
        """How many times as long as the recipes' candidate that of the task's fastest opponent takes, for each task on
        which an opponent other than eager is valid."""
        found = []
        for task in self.tasks:
            mine = self.cells.get((task, recipes.contender.name))
            others = (
                _times_as_long(result, mine)
                for (id_, _), result in self.cells.items()
                if mine
                and id_ == task
                and result.contender.kind is not ContenderKind.RECIPES
                and result.contender.name != _EAGER
            )
            found += [min(ratios)] if (ratios := [ratio for ratio in others if ratio is not None]) else []
        return found

    def clamped_over(self, contender: str, eager_ms: Callable[[str], float | None]) -> float:
        """The clamped geomean over all tasks of a contender against other times of eager than its own session's.

        Args:
            contender: its name.
            eager_ms: of a task's id; where it is None, or the contender has no valid candidate, the task counts as 1.
        """
        speedups = []
        for task in self.tasks:
            result, eager = self.cells.get((task, contender)), eager_ms(task)
            timed = result.evaluation.timing if result and result.evaluation and not result.original else None
            speedups.append(eager / timed.candidate_ms if timed and eager is not None else None)
        return clamped_geomean(speedups)


def tables(
    results: Iterable[Result], members: Iterable[str] = (), opponents: Iterable[str] = ()
) -> tuple[ResultsTable, ...]:
    """One table for each suite, device and precision, in the order of their names and of the precisions.

    Args:
        results: what was measured.
        members: the ids of all tasks of the suites that are known; those without a result stand in the tables too.
        opponents: names of baselines that have a column in the tables of these suites, measured or not.
    """
    groups: dict[tuple[str, str, Precision], list[Result]] = {}
    for result in results:
        place = suite_of(result.task), result.provenance.device.name, result.precision
        groups.setdefault(place, []).append(result)
    order = list(Precision)
    places = sorted(groups, key=lambda place: (*place[:2], order.index(place[2])))
    known, wanted = set(members), tuple(Contender(name, ContenderKind.BASELINE) for name in opponents)
    return tuple(_table(place, groups[place], known, wanted) for place in places)


def suite_of(task: str) -> str:
    """The suite of a task's id; tasks of the user's own have none."""
    suite, slash, rest = task.rpartition("/")
    return f"{suite}:small" if slash and rest.endswith(":small") else suite


def stem_of(task: str) -> str:
    """A task's id within its suite: `9_ResNet18`."""
    return task.rpartition("/")[2].removesuffix(":small")


def certainly_slower(result: Result) -> bool:
    """Whether a valid candidate is slower than eager: its whole 95 % interval says so, by more than one percent."""
    timing = result.evaluation.timing if result.evaluation and not result.original else None
    return timing is not None and timing.speedup_ci95[1] * (1.0 + FASTER_MARGIN) < 1.0


def _table(
    place: tuple[str, str, Precision], results: Sequence[Result], members: Set[str], opponents: Sequence[Contender]
) -> ResultsTable:
    suite, device, precision = place
    names: dict[str, Contender] = {result.contender.name: result.contender for result in results}
    mine = {id_ for id_ in members if suite_of(id_) == suite}
    names |= {one.name: one for one in opponents if mine}
    contenders = sorted(names.values(), key=lambda contender: _ORDER.index(contender.kind))
    recipes = {result.task: result for result in results if result.contender.kind is ContenderKind.RECIPES}
    columns = tuple(
        _column(contender, [result for result in results if result.contender.name == contender.name], recipes)
        for contender in contenders
    )
    tasks = tuple(sorted({result.task for result in results} | mine, key=_place))
    cells = {(result.task, result.contender.name): result for result in results}
    return ResultsTable(suite, device, precision, tasks, columns, cells)


def _column(contender: Contender, results: Sequence[Result], recipes: Mapping[str, Result]) -> Column:
    tried = [result for result in results if not result.missing]
    speedups = [result.speedup for result in tried]
    builds = [result.build_seconds for result in tried if result.build_seconds is not None]
    pairs = [] if contender.kind is ContenderKind.RECIPES else [(one, recipes.get(one.task)) for one in tried]
    ratios = [ratio for one, rival in pairs if rival and (ratio := _times_as_long(one, rival)) is not None]
    return Column(
        contender=contender,
        clamped=clamped_geomean(speedups) if tried else None,
        raw=unclamped_geomean(speedups),
        tried=len(tried),
        valid=sum(speedup is not None for speedup in speedups),
        slower=sum(map(certainly_slower, tried)),
        build_seconds=statistics.median(builds) if builds else None,
        minutes=sum(result.seconds for result in tried) / 60.0,
        missing=tuple(dict.fromkeys(result.missing for result in results if result.missing)),
        behind=statistics.geometric_mean(ratios) if ratios else None,
        compared=len(ratios),
    )


def _times_as_long(result: Result, rival: Result) -> float | None:
    """How many times as long as a rival's candidate another takes, None where one of them has no time."""
    ours, theirs = (one.evaluation.timing if one.evaluation else None for one in (result, rival))
    if ours is None or (theirs is None and not rival.original):
        return None
    return ours.candidate_ms / (ours.reference_ms if rival.original or theirs is None else theirs.candidate_ms)


def _place(task: str) -> tuple[int, str]:
    number = stem_of(task).partition("_")[0]
    return (int(number) if number.isdigit() else 0, task)
