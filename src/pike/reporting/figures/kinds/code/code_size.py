"""How long solutions are, against how fast they are.

Knows lines of code of valid candidates. Does not know changes (`steps`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.arithmetic import quantiles
from pike.reporting.figures.data.records import Material
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    rows: list[tuple[Entry, ...]] = [
        (cell.contender, cell.task, cell.repeat, one.id, one.code.lines, one.speedup)
        for cell, search in material.searches
        for one in search.attempts
        if one.code is not None and one.speedup is not None
    ]
    if not rows:
        lack = "no search has a valid candidate with a source"
        return Lack("code-size", lack), Lack("code-size-tasks", lack)
    columns = "contender task repeat candidate lines_of_code speedup"
    values = sheet(columns, rows, material.contenders)
    whole = Drawing("code-size", "Lines of code against speedup, valid candidates", values, _draw, (7.2, 3.3))
    tasks: list[tuple[Entry, ...]] = []
    for task in material.tasks:
        mine = [row for row in rows if row[1] == task]
        if mine:
            lines, speedups = [number(row[4]) for row in mine], [number(row[5]) for row in mine]
            parts = (0.25, 0.5, 0.75)
            tasks.append((task, len(mine), *quantiles(lines, parts), *quantiles(speedups, parts)))
    columns = "task candidates lines_q25 lines lines_q75 speedup_q25 speedup speedup_q75"
    title = "Medians and quartiles of lines of code and speedup, by task"
    return whole, Drawing("code-size-tasks", title, sheet(columns, tasks), _draw_tasks, (6.0, 4.0))


def _draw(figure: Figure, sheet: Sheet) -> None:
    from matplotlib.ticker import MaxNLocator

    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    look.points(left, sheet, "lines_of_code", "speedup")
    lines, speedups = (numbers(sheet.rows, one) for one in ("lines_of_code", "speedup"))
    look.one_line(left)
    look.speedup_axis(left, speedups)
    log = left.get_yscale() == "log"
    heat = right.hexbin(
        lines, speedups, gridsize=22, yscale="log" if log else "linear", mincnt=1, cmap="cividis_r", linewidths=0.2
    )
    look.speedup_axis(left, speedups)
    counts = heat.get_array()
    heat.set_clim(1, max(2, int(counts.max()) if counts is not None else 2))
    bar = figure.colorbar(heat, ax=right, label="candidates", ticks=MaxNLocator(5, integer=True))
    bar.outline.set_visible(False)
    room = 0.05 * (max(lines) - min(lines)) or 1.0
    left.set(xlim=(min(lines) - room, max(lines) + room), ylabel="speedup over eager")
    for axes in (left, right):
        axes.set_xlabel("lines of code")
    look.legend(figure, left)


def _draw_tasks(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    styles = look.styles([str(row["task"]) for row in sheet.rows])
    for row in sheet.rows:
        x, y, style = number(row["lines"]), number(row["speedup"]), styles[str(row["task"])]
        axes.errorbar(
            x, y,
            xerr=[[x - number(row["lines_q25"])], [number(row["lines_q75"]) - x]],
            yerr=[[y - number(row["speedup_q25"])], [number(row["speedup_q75"]) - y]],
            color=style["color"], marker=style["marker"], linewidth=0.8, capsize=0, label=look.short(str(row["task"])),
            linestyle="",
        )  # fmt: skip
    look.one_line(axes)
    look.speedup_axis(axes, numbers(sheet.rows, "speedup_q25", "speedup_q75"))
    axes.set(xlabel="lines of code", ylabel="speedup over eager")
    look.legend(figure, axes)


KIND = FigureKind("code-size", "lines of code against speedup: scatter, heat map, tasks", _plan, reads_code=True)
