"""The speedup of each contender on each task, as a figure and as tables.

Knows the median over repeats, in which one without a candidate counts as 1. Does not know geomeans.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import Material
from pike.reporting.figures.drawing import Drawing, FigureKind, Row, Sheet, in_each_suite, number, sheet
from pike.reporting.figures.tabular import TextCell, latex, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEVERAL = "\n(median of repeats; one without a valid candidate counts as 1)"
_DARK = 0.62
"""The part of the colour scale from which text on it is white."""


def _drawing(material: Material, ending: str) -> Drawing:
    names, tasks = material.contenders, material.tasks
    values = sheet(
        "task contender speedup runs without_candidate best",
        [row for task in tasks for row in _rows(material, task)],
        names,
    )
    head = ["task", *names]
    body = [[TextCell(look.short(task)), *(_cell(values, task, name) for name in names)] for task in tasks]
    several = any(number(row["runs"]) > 1 for row in values.rows)
    width = 1.6 + 0.06 * max(len(look.short(task)) for task in tasks) + 0.85 * len(names)
    return Drawing(
        f"tasks{ending}",
        "Speedup over eager on each task, the best in bold" + (_SEVERAL if several else ""),
        values,
        _draw,
        (max(4.0, width), 1.2 + 0.19 * len(tasks)),
        ((".md", markdown(head, body)), (".tex", latex(head, body))),
    )


def _rows(material: Material, task: str) -> list[tuple[str | int | float | None, ...]]:
    rows = []
    for name in material.contenders:
        cells = [cell for cell in material.of(name) if cell.task == task]
        lacking = sum(cell.speedup is None for cell in cells)
        if cells:
            middle = statistics.median(cell.speedup or 1.0 for cell in cells) if lacking < len(cells) else None
            rows.append((name, middle, len(cells), lacking))
    best = max((row[1] for row in rows if row[1] is not None), default=None)
    return [(task, *row, int(row[1] is not None and row[1] == best)) for row in rows]


def _cell(values: Sheet, task: str, name: str) -> TextCell:
    row: Row | None = next(values.where(task=task, contender=name), None)
    if row is None:
        return TextCell("")
    return TextCell("–") if row["speedup"] is None else TextCell(f"{number(row['speedup']):.2f}", bool(row["best"]))


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    tasks, names = sheet.names("task"), sheet.order
    logs = [abs(math.log(number(row["speedup"]))) for row in sheet.rows if row["speedup"]]
    most = max([math.log(1.5), *logs])
    for row in sheet.rows:
        x, y = names.index(str(row["contender"])), tasks.index(str(row["task"]))
        colour, dark = _shade(row["speedup"], most)
        axes.barh(y, 0.96, 0.92, left=x - 0.48, color=colour)
        text = "–" if row["speedup"] is None else f"{number(row['speedup']):.2f}×"
        weight = "bold" if row["best"] else "normal"
        axes.text(x, y, text, ha="center", va="center", fontsize=7, weight=weight, color="white" if dark else "#222222")
    look.matrix(axes, names, [look.short(task) for task in tasks], slanted=any(len(name) > 13 for name in names))


def _shade(speedup: str | float | None, most: float) -> tuple[tuple[float, ...], bool]:
    """White at 1, blue above, orange below; grey without a candidate. Also whether it is dark."""
    if speedup is None:
        return (0.93, 0.93, 0.93), False
    log = math.log(number(speedup))
    part = min(1.0, abs(log) / most)
    full = (0.0, 0.447, 0.698) if log >= 0 else (0.835, 0.369, 0.0)
    return tuple(1.0 - part * (1.0 - one) for one in full), part > _DARK


KIND = FigureKind(
    "tasks", "speedup on each task, also as Markdown and LaTeX", in_each_suite(_drawing), of_searches=False
)
