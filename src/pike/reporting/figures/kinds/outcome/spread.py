"""How far repeats of a contender lie apart, and how far another set of tasks might.

Knows geomeans of repeats and the bootstrap over tasks. Does not know single tasks.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.arithmetic import bootstrap, over_repeats, quantiles
from pike.reporting.figures.data.records import Material
from pike.reporting.figures.drawing import Drawing, FigureKind, Lack, Sheet, in_each_suite, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ONE, _MEDIAN, _TASKS = "one repeat", "median and quartiles", "95 % over tasks"
_SEVERAL = 2


def _drawing(material: Material, ending: str) -> Drawing | Lack:
    rows: list[tuple[str | float | None, ...]] = []
    for name in material.contenders:
        cells = material.of(name)
        found = over_repeats(material, cells, lambda cell: cell.speedup)
        each = [one for one in found.by_repeat if one is not None]
        if len(each) >= _SEVERAL:
            rows += [(name, _ONE, one, None, None) for one in each]
            rows.append((name, _MEDIAN, statistics.median(each), *quantiles(each, (0.25, 0.75))))
        interval = bootstrap(cells)
        if interval is not None:
            rows.append((name, _TASKS, found.value, *interval))
    if not rows:
        return Lack(f"spread{ending}", "there are neither two repeats nor three tasks: name several runs or campaigns")
    count = len({row[0] for row in rows})
    title = "Spread over repeats and over tasks of the clamped geomean"
    values = sheet("contender what speedup low high", rows, material.contenders)
    return Drawing(f"spread{ending}", title, values, _draw, (6.4, 1.2 + 0.36 * count))


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    styles, names = look.of_contenders(sheet), sheet.names("contender")
    for place, name in enumerate(names):
        colour = styles[name]["color"]
        for row in sheet.where(contender=name, what=_TASKS):
            low, high = number(row["low"]), number(row["high"])
            axes.plot([low, high], [place + 0.18] * 2, color=look.GREY, linewidth=1.2)
            axes.plot(number(row["speedup"]), place + 0.18, "|", color=look.GREY, markersize=7)
        for row in sheet.where(contender=name, what=_MEDIAN):
            low, high = number(row["low"]), number(row["high"])
            axes.barh(place - 0.14, high - low, 0.3, left=low, color=colour, alpha=0.3)
            axes.plot([number(row["speedup"])] * 2, [place - 0.29, place + 0.01], color=colour)
        ones = numbers(sheet.where(contender=name, what=_ONE), "speedup")
        axes.plot(ones, [place - 0.14] * len(ones), "o", color=colour, markersize=3.5, linestyle="")
    _keys(axes, {str(row["what"]) for row in sheet.rows})
    values = numbers(sheet.rows, "speedup", "low", "high")
    look.speedup_axis(axes, values, which="x", anchor=None)
    look.named_rows(axes, names)
    axes.grid(axis="x")
    axes.set_xlabel("speedup over eager (clamped geomean)")
    look.legend(figure, axes, columns=4)


def _keys(axes: Axes, whats: set[str]) -> None:
    """Entries of the legend, in grey: each row has a colour of its own."""
    if _MEDIAN in whats:
        axes.plot([], [], "o", color=look.GREY, markersize=3.5, label=_ONE)
        axes.fill_between([], [], color=look.GREY, alpha=0.3, linewidth=0, label="quartiles of repeats")
        axes.plot([], [], "|", color=look.GREY, markersize=8, markeredgewidth=1.5, label="median of repeats")
    if _TASKS in whats:
        axes.plot([], [], color=look.GREY, linewidth=1.2, label=f"{_TASKS} (bootstrap)")


KIND = FigureKind(
    "spread", "medians and quantiles over repeats, bootstrap over tasks", in_each_suite(_drawing), of_searches=False
)
