"""The arithmetic that several figures share: geomeans over repeats, quantiles, the bootstrap.

Knows cells of one contender. Does not know sheets or axes.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

from pike.reporting.figures.data.records import DrawnCell, Material
from pike.reporting.standings import Spread, clamped_geomean, spread

RESAMPLES = 2000
_SEED = 20
"""Of the bootstrap, so that the same journals give the same figure."""


def over_repeats(
    material: Material, cells: Sequence[DrawnCell], speedup: Callable[[DrawnCell], float | None]
) -> Spread:
    """The clamped geomean of a figure of cells; cells without a search are in every repeat."""
    each = tuple(clamped_geomean([speedup(cell) for cell in repeat]) for repeat in material.repeats(cells))
    return spread(clamped_geomean([speedup(cell) for cell in cells]), each)


def bootstrap(cells: Sequence[DrawnCell]) -> tuple[float, float] | None:
    """The 95 % interval of the clamped geomean over tasks; None below three tasks.

    Tasks are drawn with replacement, all repeats of a task together: another set of tasks of the
    same kind would bring a geomean in this interval.
    """
    tasks: dict[str, list[float]] = {}
    for cell in cells:
        tasks.setdefault(cell.task, []).append(math.log(max(1.0, cell.speedup or 1.0)))
    logs = [statistics.fmean(gains) for gains in tasks.values()]
    if len(logs) < 3:
        return None
    rng = random.Random(_SEED)
    means = [statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES)]
    low, high = quantiles(means, (0.025, 0.975))
    return math.exp(low), math.exp(high)


def quantiles(values: Sequence[float], parts: Sequence[float]) -> tuple[float, ...]:
    """Quantiles with linear interpolation between values."""
    import numpy

    return tuple(map(float, numpy.quantile(values, parts)))


def over_search(places: Sequence[float], values: Sequence[float], bins: int = 10) -> list[tuple[float, float]]:
    """Means of values by where in the search they stand: (middle of the bin, mean) pairs."""
    found: list[list[float]] = [[] for _ in range(bins)]
    for place, value in zip(places, values, strict=True):
        found[min(bins - 1, int(place * bins))].append(value)
    return [((at + 0.5) / bins, statistics.fmean(one)) for at, one in enumerate(found) if one]
