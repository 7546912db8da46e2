"""Bars of the overall speedup of each contender, with what a money budget reaches.

Knows clamped geomeans at the end and at amounts of money. Does not know trajectories.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.arithmetic import over_repeats
from pike.reporting.figures.data.records import DrawnCell, Material, Measure
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Row, Sheet, in_each_suite, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = "contender at speedup low high repeats runs without_candidate source"
_END, _OURS = "end", "measured"


def _drawing(material: Material, ending: str) -> Drawing:
    rows = [row for name in material.contenders for row in _rows(material, name)]
    for one in material.published:
        if one.measure == "geomean":
            at = one.cut if one.cut.startswith("$") else _END
            rows.append((one.contender, at, one.value, None, None, 1, None, None, one.source))
    rows.sort(key=lambda row: row[8] != _OURS)
    bars = len({(row[0], row[8]) for row in rows})
    return Drawing(
        f"speedups{ending}",
        "Overall speedup: clamped geomean over the tasks",
        sheet(_COLUMNS, rows, material.contenders),
        _draw,
        (6.4, 1.1 + 0.27 * bars),
    )


def _rows(material: Material, contender: str) -> list[tuple[Entry, ...]]:
    cells = material.of(contender)
    lacking = sum(cell.speedup is None for cell in cells)
    whole = over_repeats(material, cells, lambda cell: cell.speedup)
    repeats = len(whole.by_repeat)
    rows: list[tuple[Entry, ...]] = [
        (contender, _END, whole.value, whole.low, whole.high, repeats, len(cells), lacking, _OURS)
    ]
    most = max((cell.search.ended.usd for cell in cells if cell.search), default=0.0)
    for mark in material.usd_marks:
        if most >= mark:
            at = over_repeats(material, cells, partial(_at, mark))
            rows.append((contender, f"${mark:g} a task", at.value, at.low, at.high, repeats, len(cells), None, _OURS))
    return rows


def _at(usd: float, cell: DrawnCell) -> float | None:
    return cell.search.best_at(Measure.USD, usd) if cell.search else cell.speedup


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    bars = [row for row in sheet.rows if row["at"] == _END]
    styles = look.of_contenders(sheet)
    for place, row in enumerate(bars):
        _bar(axes, place, row, styles)
    marks = sorted(
        {str(row["at"]) for row in sheet.rows if row["at"] != _END}, key=lambda mark: float(mark[1:].split()[0])
    )
    places = {(row["contender"], row["source"]): place for place, row in enumerate(bars)}
    for shape, mark in zip("D|s^v", marks, strict=False):
        found = [row for row in sheet.where(at=mark) if (row["contender"], row["source"]) in places]
        axes.plot(
            numbers(found, "speedup"),
            [places[row["contender"], row["source"]] for row in found],
            shape, color="black", markerfacecolor="white", markersize=5, markeredgewidth=1.2, zorder=4,
            label=f"at {mark}",
        )  # fmt: skip
    values = numbers(sheet.rows, "speedup", "low", "high")
    look.speedup_axis(axes, values, which="x")
    axes.set_xlim(left=1.0, right=axes.get_xlim()[1] * 1.06)
    look.named_rows(axes, [_label(row) for row in bars])
    repeated = any(number(row["repeats"]) > 1 for row in bars)
    axes.set_xlabel("speedup over eager" + ("; whiskers: lowest and highest repeat" if repeated else ""))
    look.legend(figure, axes)


def _label(row: Row) -> str:
    return str(row["contender"]) if row["source"] == _OURS else f"{row['contender']} (published)"


def _bar(axes: Axes, place: int, row: Row, styles: dict[str, dict[str, str]]) -> None:
    value, ours = number(row["speedup"]), row["source"] == _OURS
    colour = styles[str(row["contender"])]["color"] if ours else look.GREY
    axes.barh(
        place, value - 1.0, 0.62, left=1.0, color=colour if ours else "white", edgecolor=colour,
        linewidth=0.0 if ours else 1.0, hatch=None if ours else "////",
    )  # fmt: skip
    end = value
    if number(row["repeats"]) > 1:
        low, end = number(row["low"]), number(row["high"])
        axes.errorbar(value, place, xerr=[[value - low], [end - value]], color="#333333", linewidth=1.0)
    look.beside(axes, f"{value:.2f}×", max(end, value), place)


KIND = FigureKind(
    "speedups", "overall speedup of each contender, and what money reaches", in_each_suite(_drawing), of_searches=False
)
