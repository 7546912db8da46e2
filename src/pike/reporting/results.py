"""What results of contenders add up to: for each suite and precision one table.

Knows arithmetic over results. Does not know files (`store`) nor how a table looks (`cli`).
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Result
from pike.core.task import is_held_out
from pike.core.verdict.evaluation import FASTER_MARGIN, Precision
from pike.reporting.standings import FAST, clamped_geomean, fast_share, unclamped_geomean

_EAGER = "eager"
HELD_OUT, OPEN = "held out", "developed on"
"""The halves of a suite whose tasks declare families; no recipe is developed on the first."""
_ORDER = (ContenderKind.RECIPES, ContenderKind.BASELINE, ContenderKind.PUBLISHED, ContenderKind.RUN)


@dataclass(frozen=True, slots=True)
class Column:
    """One contender on one suite at one precision.

    Attributes:
        contender: who.
        clamped: geomean over the tasks that were tried; one without a valid candidate, or slower
            than eager, counts as
            1. None where nothing was tried.
        raw: geomean over the valid candidates as they are.
        tried: tasks with a verdict.
        fast: for each p of `FAST`, the share of these tasks with a speedup above p.
        valid: tasks with a valid candidate.
        slower: valid candidates whose whole 95 % interval lies below eager's speed by more than one
            percent.
        build_seconds: median time to build.
        minutes: that measuring it on all these tasks took, one after the other; searches for its
            candidates count.
        missing: why tasks were not measured, each reason once.
        behind: how many times as long as the recipes' candidates its own take, in milliseconds: the
            geomean over the tasks in `compared`. None for recipes, and where no task has a valid
            candidate of both. Where recipes gave the original back, eager's time beside the
            candidate stands for theirs.
        compared: how many tasks that is.
    """

    contender: Contender
    clamped: float | None
    raw: float | None
    tried: int
    fast: tuple[float, ...]
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
        part: which part of the suite, a half or a family; empty for all of it.
        parts: the tables of both halves and of each family; empty where tasks declare none.
    """

    suite: str
    device: str
    precision: Precision
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: dict[tuple[str, str], Result]
    part: str = ""
    parts: tuple["ResultsTable", ...] = ()

    @property
    def ahead(self) -> list[float]:
        """The `leads` of the recipes' column; empty where there is none."""
        recipes = (column for column in self.columns if column.contender.kind is ContenderKind.RECIPES)
        return [lead for column in recipes for lead in self.leads(column)]

    def row(self, task: str) -> tuple[Result | None, ...]:
        """The results of a task in the order of the columns, None where there is none."""
        return tuple(self.cells.get((task, column.contender.name)) for column in self.columns)

    def eager_ms(self, task: str) -> float | None:
        """Eager execution's time: the median over everything that was timed against it."""
        times = [one.timing.reference_ms for result in self._of(task) if (one := result.evaluation) and one.timing]
        return statistics.median(times) if times else None

    def leads(self, recipes: Column) -> list[float]:
        """How many times as long as the recipes' candidate that of the fastest baseline takes.

        One figure for each task on which a baseline other than eager is valid.
        """
        found = []
        for task in self.tasks:
            mine = self.cells.get((task, recipes.contender.name))
            others = (one for one in self._of(task) if one.contender.kind is not ContenderKind.RECIPES)
            timed = (one for one in others if one.contender.name != _EAGER)
            ratios = [ratio for one in timed if mine and (ratio := _times_as_long(one, mine)) is not None]
            found += [min(ratios)] if ratios else []
        return found

    def _of(self, task: str) -> list[Result]:
        return [result for (id_, _), result in self.cells.items() if id_ == task]


def tables(
    results: Iterable[Result], members: Iterable[str] = (), baselines: Iterable[str] = ()
) -> tuple[ResultsTable, ...]:
    """One table for each suite, device and precision, in the order of these.

    Args:
        results: what was measured.
        members: the ids of all tasks of the suites that are known; those without a result stand in
            the tables too.
        baselines: names that have a column in the tables of these suites, measured or not.
    """
    groups: dict[tuple[str, str, Precision], list[Result]] = {}
    for result in results:
        place = suite_of(result.task), result.provenance.device.name, result.precision
        groups.setdefault(place, []).append(result)
    order = list(Precision)
    places = sorted(groups, key=lambda place: (*place[:2], order.index(place[2])))
    known, wanted = set(members), tuple(Contender(name, ContenderKind.BASELINE) for name in baselines)
    return tuple(_with_parts(_table(place, groups[place], known, wanted), groups[place]) for place in places)


def suite_of(task: str) -> str:
    """The suite of a task's id; tasks of the user's own have none."""
    suite, slash, rest = task.rpartition("/")
    return f"{suite}:small" if slash and rest.endswith(":small") else suite


def stem_of(task: str) -> str:
    """A task's id within its suite: `9_ResNet18`."""
    return task.rpartition("/")[2].removesuffix(":small")


def certainly_slower(result: Result) -> bool:
    """Whether the whole 95 % interval of a valid candidate is over one percent slower than eager."""
    timing = result.evaluation.timing if result.evaluation and not result.original else None
    return timing is not None and timing.speedup_ci95[1] * (1.0 + FASTER_MARGIN) < 1.0


def _table(
    place: tuple[str, str, Precision], results: Sequence[Result], members: Set[str], baselines: Sequence[Contender]
) -> ResultsTable:
    suite, device, precision = place
    names: dict[str, Contender] = {result.contender.name: result.contender for result in results}
    mine = {id_ for id_ in members if suite_of(id_) == suite}
    names |= {one.name: one for one in baselines if mine}
    contenders = sorted(names.values(), key=lambda contender: _ORDER.index(contender.kind))
    recipes = {result.task: result for result in results if result.contender.kind is ContenderKind.RECIPES}
    columns = tuple(
        _column(contender, [result for result in results if result.contender.name == contender.name], recipes)
        for contender in contenders
    )
    tasks = tuple(sorted({result.task for result in results} | mine, key=place_of))
    cells = {(result.task, result.contender.name): result for result in results}
    return ResultsTable(suite, device, precision, tasks, columns, cells)


def _with_parts(whole: ResultsTable, results: Sequence[Result]) -> ResultsTable:
    groups: dict[str, list[Result]] = {HELD_OUT: [], OPEN: []}
    for result in sorted(results, key=lambda result: result.family):
        if result.family:
            groups[HELD_OUT if is_held_out(result.task) else OPEN].append(result)
            groups.setdefault(result.family, []).append(result)
    place = whole.suite, whole.device, whole.precision
    parts = (replace(_table(place, group, set(), ()), part=name) for name, group in groups.items() if group)
    return replace(whole, parts=tuple(parts))


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
        fast=tuple(fast_share(speedups, p) for p in FAST),
        valid=sum(speedup is not None for speedup in speedups),
        slower=sum(map(certainly_slower, tried)),
        build_seconds=statistics.median(builds) if builds else None,
        minutes=sum(result.seconds for result in tried) / 60.0,
        missing=tuple(dict.fromkeys(result.missing for result in results if result.missing)),
        behind=statistics.geometric_mean(ratios) if ratios else None,
        compared=len(ratios),
    )


def _times_as_long(result: Result, rival: Result) -> float | None:
    """How many times as long as a rival's candidate another takes; None if one has no time."""
    ours, theirs = (one.evaluation.timing if one.evaluation else None for one in (result, rival))
    if ours is None or (theirs is None and not rival.original):
        return None
    return ours.candidate_ms / (ours.reference_ms if rival.original or theirs is None else theirs.candidate_ms)


def place_of(task: str) -> tuple[int, str]:
    """Where a task stands in its suite: by its number, then by its name."""
    number = stem_of(task).partition("_")[0]
    return (int(number) if number.isdigit() else 0, task)
