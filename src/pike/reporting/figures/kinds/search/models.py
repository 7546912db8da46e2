"""Which of several models was asked over a search, and what each had brought by then.

Knows the models that wrote candidates. Does not know how a bandit chooses.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import Attempt, DrawnCell, Material, SearchRecord
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_BINS = 20


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    rows: list[tuple[Entry, ...]] = []
    for cell, search in material.searches:
        models = {one.model for one in search.own_attempts if not one.fix}
        if len(models) > 1:
            rows += _rows(cell, search, tuple(sorted(models)))
    if not rows:
        return (Lack("models", "no search asked several models"),)
    columns = "contender task repeat place_in_search model share mean_reward"
    title = "Models over the search: share of samples and reward so far, mean over the searches"
    return (Drawing("models", title, sheet(columns, rows, material.contenders), _draw, (7.0, 3.1)),)


def _rows(cell: DrawnCell, search: SearchRecord, models: tuple[str, ...]) -> list[tuple[Entry, ...]]:
    """Running shares and rewards of the models that wrote samples.

    A reward is the logarithm of the speedup over the seed, at least 0. A model earns from its own
    candidate, or from the repaired form of it.
    """
    found: list[tuple[Entry, ...]] = []
    asked: Counter[str] = Counter()
    earned = dict.fromkeys(models, 0.0)
    root: dict[str, Attempt] = {}
    attempts = search.own_attempts
    for at, one in enumerate(attempts, 1):
        first = root[one.id] = root.get(one.seed, one) if one.fix else one
        asked[first.model] += not one.fix
        if one.speedup and first.seed_speedup:
            earned[first.model] += max(0.0, math.log(one.speedup / first.seed_speedup))
        for model in models:
            mean = earned[model] / asked[model] if asked[model] else None
            said = cell.contender, cell.task, cell.repeat, at / len(attempts), model
            found.append((*said, asked[model] / max(1, asked.total()), mean))
    return found


def _draw(figure: Figure, sheet: Sheet) -> None:
    left, right = figure.subplots(1, 2)
    names = sheet.names("model")
    styles = look.styles(names)
    for name in names:
        colour = styles[name]["color"]
        for axes, column, scale in ((left, "share", 100.0), (right, "mean_reward", 1.0)):
            rows = [row for row in sheet.where(model=name) if row[column] is not None]
            look.mean_over_search(axes, rows, column, times=scale, bins=_BINS, color=colour, label=name)
    left.set_ylabel("% of samples so far")
    right.set_ylabel("mean reward so far (log of gain)")
    look.legend(figure, left)


KIND = FigureKind("models", "shares of several models over a search, and what each brought", _plan)
