"""The figures by which strategies are compared: geomeans, fast_p and their spread, at equal budget.

Knows arithmetic over the best speedups of runs. Does not know journals (`fold`) or campaigns' files
(`campaign`).

A run without a valid candidate has a speedup of None. The *clamped* geomean counts it as 1, and
everything slower than the original as 1 too, because the original is always there to be used. The
*unclamped* geomean takes the runs with a valid candidate as they are and leaves the others out.
`failed` says how many those are. fast_p is the share of all runs whose speedup is above p
(KernelBench, arXiv 2502.10517); one without a valid candidate is in no share.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

FAST = (1.0, 1.5, 2.0)
"""The p of fast_p."""


class Axis(StrEnum):
    """What a run spends."""

    QUERIES = "queries"
    USD = "usd"


@dataclass(frozen=True, slots=True)
class NewBest:
    """A new best of a run during its search.

    Attributes:
        queries: budgeted queries whose outcome was known by then.
        usd: known money spent by then.
        best: the speedup.
    """

    queries: int
    usd: float
    best: float

    def at(self, axis: Axis) -> float:
        """Where it lies on an axis."""
        return self.queries if axis is Axis.QUERIES else self.usd


@dataclass(frozen=True, slots=True)
class Cut:
    """Where figures of runs are taken: at so much spent by each, or at the end without an axis."""

    axis: Axis | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over repeats: its value over all of them, and the values of each.

    Attributes:
        value: over all runs.
        low: of the lowest repeat.
        high: of the highest repeat.
        by_repeat: of each repeat; None where it has none.
    """

    value: float
    low: float
    high: float
    by_repeat: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """One strategy at one cut.

    Attributes:
        contender: the strategy.
        cut: where.
        clamped: the clamped geomean.
        unclamped: the unclamped geomean, None without a single valid candidate.
        fast: (p, fast_p) pairs.
        failed: tasks without a valid candidate, of all repeats together: what the unclamped geomean
            leaves out.
        reached: runs that spent so much, or ended before; the others' figures may still rise.
        runs: tasks times repeats.
    """

    contender: str
    cut: Cut
    clamped: Spread
    unclamped: Spread | None
    fast: tuple[tuple[float, Spread], ...]
    failed: int
    reached: int
    runs: int


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The clamped geomean over all runs of a strategy, against what each of them had spent.

    Attributes:
        contender: the strategy.
        axis: what was spent.
        points: (spent, geomean) pairs; between two, the geomean is that of the first.
    """

    contender: str
    axis: Axis
    points: tuple[tuple[float, float], ...]


def best_at(rises: Sequence[NewBest], cut: Cut) -> float | None:
    """The best speedup of the search at a cut, None before the first valid candidate."""
    if cut.axis is None:
        return rises[-1].best if rises else None
    axis = cut.axis
    count = bisect_right(rises, cut.at, key=lambda rise: rise.at(axis))
    return rises[count - 1].best if count else None


def clamped_geomean(speedups: Iterable[float | None]) -> float:
    """The geometric mean, with 1 for whatever is below it or None; 1 for nothing at all."""
    return _geomean([max(1.0, speedup or 1.0) for speedup in speedups]) or 1.0


def unclamped_geomean(speedups: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are not None."""
    return _geomean([speedup for speedup in speedups if speedup is not None])


def fast_share(speedups: Iterable[float | None], p: float) -> float:
    """fast_p: the share above `p`."""
    found = list(speedups)
    return sum(speedup is not None and speedup > p for speedup in found) / len(found) if found else 0.0


def standing(contender: str, cut: Cut, repeats: Sequence[Sequence[float | None]], reached: int) -> Standing:
    """The figures of one strategy at one cut; each of `repeats` has every speedup."""
    flat = [speedup for tasks in repeats for speedup in tasks]
    missing = sum(speedup is None for speedup in flat)
    unclamped = unclamped_geomean(flat)
    each = tuple(unclamped_geomean(tasks) for tasks in repeats)
    return Standing(
        contender=contender,
        cut=cut,
        clamped=spread(clamped_geomean(flat), tuple(clamped_geomean(tasks) for tasks in repeats)),
        unclamped=None if unclamped is None else spread(unclamped, each),
        fast=tuple((p, spread(fast_share(flat, p), tuple(fast_share(tasks, p) for tasks in repeats))) for p in FAST),
        failed=missing,
        reached=reached,
        runs=len(flat),
    )


def trajectory(contender: str, axis: Axis, runs: Sequence[Sequence[NewBest]]) -> Trajectory:
    """The clamped geomean over `runs` wherever it changes."""
    points = [(0.0, 1.0)]
    logs = [0.0] * len(runs)
    moves = sorted((rise.at(axis), index, rise.best) for index, rises in enumerate(runs) for rise in rises)
    for x, index, best in moves:
        logs[index] = max(logs[index], math.log(max(1.0, best)))
        value = math.exp(math.fsum(logs) / len(runs))
        if points[-1][0] == x:
            points.pop()
        if not points or points[-1][1] != value:
            points.append((x, value))
    return Trajectory(contender, axis, tuple(points))


def _geomean(speedups: Sequence[float]) -> float | None:
    if not speedups:
        return None
    return math.exp(math.fsum(map(math.log, speedups)) / len(speedups))


def spread(value: float, each: tuple[float | None, ...]) -> Spread:
    """A figure over all runs with those of its repeats."""
    known = [one for one in each if one is not None]
    return Spread(value, min(known, default=value), max(known, default=value), each)
