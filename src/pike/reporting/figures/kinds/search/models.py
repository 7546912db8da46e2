"""Which of several models was asked over a search, and what each had brought by then.

Knows the models that wrote candidates. Does not know how a bandit chooses.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import DrawnCell, Material, SearchRecord
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    rows: list[tuple[Entry, ...]] = []
    for cell, search in material.searches:
        models = {one.model for one in search.attempts if one.role != "outside"}
        if len(models) > 1:
            rows += _rows(cell, search, tuple(sorted(models)))
    if not rows:
        return (Lack("models", "no search asked several models"),)
    columns = "contender task repeat place_in_search model share mean_reward"
    title = "Models over the search: share of candidates, and mean reward so far"
    return (Drawing("models", title, sheet(columns, rows, material.contenders), _draw, (7.0, 3.1)),)


def _rows(cell: DrawnCell, search: SearchRecord, models: tuple[str, ...]) -> list[tuple[Entry, ...]]:
    """Running shares and rewards; a reward is the log of the speedup over the seed, at least 0."""
    found: list[tuple[Entry, ...]] = []
    asked: Counter[str] = Counter()
    earned: Counter[str] = Counter()
    attempts = [one for one in search.attempts if one.role != "outside"]
    for at, one in enumerate(attempts, 1):
        asked[one.model] += 1
        if one.speedup and one.seed_speedup:
            earned[one.model] += max(0.0, math.log(one.speedup / one.seed_speedup))  # type: ignore[assignment]
        for model in models:
            mean = earned[model] / asked[model] if asked[model] else None
            said = cell.contender, cell.task, cell.repeat, at / len(attempts), model
            found.append((*said, asked[model] / at, mean))
    return found


def _draw(figure: Figure, sheet: Sheet) -> None:
    left, right = figure.subplots(1, 2)
    names = sheet.names("model")
    styles = look.styles(names)
    for name in names:
        runs = dict.fromkeys((row["contender"], row["task"], row["repeat"]) for row in sheet.where(model=name))
        for at, (contender, task, repeat) in enumerate(runs):
            rows = list(sheet.where(model=name, contender=contender, task=task, repeat=repeat))
            label = name if at == 0 else None
            look_of = {"color": styles[name]["color"], "alpha": max(0.25, 1.0 / len(runs)), "linewidth": 1.2}
            places = [100.0 * number(row["place_in_search"]) for row in rows]
            left.plot(places, [100.0 * number(row["share"]) for row in rows], label=label, **look_of)
            known = [
                (x, row["mean_reward"]) for x, row in zip(places, rows, strict=True) if row["mean_reward"] is not None
            ]
            right.plot([x for x, _ in known], [number(y) for _, y in known], **look_of)
    for axes, label in ((left, "% of candidates so far"), (right, "mean reward so far (log of gain)")):
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the search")
        axes.set_ylabel(label)
        axes.grid(axis="y")
    look.legend(figure, left)


KIND = FigureKind("models", "shares of several models over a search, and what each brought", _plan)
