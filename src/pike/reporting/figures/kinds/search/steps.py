"""How far candidates go from their seeds: changed lines, over the search and against the gain.

Knows attempts with facts about their sources. Does not compute those facts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import Material
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Bounds of the histogram, in changed lines."""


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    rows: list[tuple[Entry, ...]] = []
    for cell, search in material.searches:
        count = len(search.attempts)
        for at, one in enumerate(search.attempts):
            if one.code is not None and one.code.changed is not None and one.role != "outside":
                gain = one.speedup / one.seed_speedup if one.speedup and one.seed_speedup else None
                said = cell.contender, cell.task, cell.repeat, one.id, at / count
                rows.append((*said, one.code.changed, gain))
    if not rows:
        lack = "no search has a candidate whose seed is known"
        return Lack("steps-size", lack), Lack("steps-gain", lack)
    columns = "contender task repeat candidate place_in_search changed_lines gain"
    values = sheet(columns, rows, material.contenders)
    size = Drawing("steps-size", "Lines changed from seed to candidate", values, _draw_size, (7.0, 3.1))
    gains = [row for row in rows if row[-1] is not None]
    if not gains:
        return size, Lack("steps-gain", "no valid candidate continues a valid seed")
    title = "Lines changed against the gain over the seed"
    return size, Drawing("steps-gain", title, sheet(columns, gains, material.contenders), _draw_gain, (5.6, 3.6))


def _draw_size(figure: Figure, sheet: Sheet) -> None:
    left, right = figure.subplots(1, 2)
    styles = look.of_contenders(sheet)
    every = numbers(sheet.rows, "changed_lines")
    bounds = _bounds(min(every), max(every))
    for name in sheet.names("contender"):
        rows = list(sheet.where(contender=name))
        lines = numbers(rows, "changed_lines")
        style = styles[name]
        look.mean_over_search(left, rows, "changed_lines", label=name, **style)
        counts = [sum(low <= one < high for one in lines) / len(lines) for low, high in bounds]
        edges = [at - 0.5 for at in range(len(counts) + 1)]
        shares = [100.0 * one for one in counts]
        right.stairs(shares, edges, baseline=None, color=style["color"], linestyle=style["linestyle"], linewidth=1.5)
    left.set_ylabel("mean of changed lines")
    left.set_ylim(bottom=0)
    right.set_xticks(range(len(bounds)), [_said(low, high) for low, high in bounds], rotation=45)
    right.set_ylim(bottom=0)
    right.set(xlabel="changed lines", ylabel="% of candidates")
    right.grid(axis="y")
    look.legend(figure, left)


def _bounds(least: float, most: float) -> list[tuple[float, float]]:
    """The bins from that of the least number to that of the largest."""
    return [
        (low, high) for low, high in zip(_BINS, [*_BINS[1:], math.inf], strict=True) if low <= most and high > least
    ]


def _said(low: float, high: float) -> str:
    if high - low == 1:
        return f"{low:g}"
    return f"{low:g}+" if high == math.inf else f"{low:g}–{high - 1:g}"


def _draw_gain(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    look.points(axes, sheet, "changed_lines", "gain")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=-0.2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    look.one_line(axes)
    look.speedup_axis(axes, numbers(sheet.rows, "gain"))
    axes.set(xlabel="changed lines", ylabel="speedup over the seed")
    look.legend(figure, axes)


KIND = FigureKind(
    "steps", "changed lines from seed to candidate, over the search and against gain", _plan, reads_code=True
)
