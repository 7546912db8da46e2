"""Lines of the geomean over what the searches used: queries, dollars, minutes.

Knows the best so far of each search, as measured by the search. Does not know re-measured times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.arithmetic import over_repeats
from pike.reporting.figures.data.records import DrawnCell, Material, Measure
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Row, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 150
"""The most points of one line."""
_LABELS = {Measure.QUERIES: "queries of a run", Measure.USD: "US dollars of a run", Measure.MINUTES: "minutes of a run"}
_WHY = {
    Measure.QUERIES: "no search asked a model",
    Measure.USD: "no journal holds the price of a query",
    Measure.MINUTES: "no journal holds the time of a search",
}
_SEARCH, _LINE, _PUBLISHED = "search", "reference", "published"


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    return tuple(_one(part, measure, ending) for ending, part in material.by_suite() for measure in Measure)


def _one(material: Material, measure: Measure, ending: str) -> Drawing | Lack:
    name = f"trajectories-{measure.value}{ending}"
    most = max((search.ended.at(measure) for _, search in material.searches), default=0.0)
    if most <= 0.0:
        return Lack(name, _WHY[measure])
    rows: list[tuple[Entry, ...]] = []
    for contender in material.contenders:
        cells = material.of(contender)
        searching = [cell for cell in cells if cell.search is not None]
        if searching and max(cell.search.ended.at(measure) for cell in searching if cell.search) > 0.0:
            rows += _line(material, contender, cells, measure)
        else:
            value = over_repeats(material, cells, lambda cell: cell.speedup)
            rows.append((contender, _LINE, None, value.value, None, None))
    rows += _published(material, measure)
    return Drawing(
        name,
        f"Clamped geomean over the {_LABELS[measure]}, as measured by the search",
        sheet(f"contender series {measure.value} speedup low high", rows, material.contenders),
        _draw,
        (8.2 if material.published else 6.4, 3.8),
    )


def _line(material: Material, contender: str, cells: Sequence[DrawnCell], measure: Measure) -> list[tuple[Entry, ...]]:
    searches = [cell.search for cell in cells if cell.search]
    end = max(search.ended.at(measure) for search in searches)
    rises = sorted({rise.at(measure) for search in searches for rise in search.rises})
    if len(rises) > _POINTS:
        rises = [rises[at * (len(rises) - 1) // (_POINTS - 1)] for at in range(_POINTS)]
    rows: list[tuple[Entry, ...]] = []
    for at in dict.fromkeys([0.0, *(float(rise) for rise in rises), float(end)]):
        value = over_repeats(material, cells, partial(_at, measure, at))
        rows.append((contender, _SEARCH, at, value.value, value.low, value.high))
    return rows


def _at(measure: Measure, at: float, cell: DrawnCell) -> float | None:
    return cell.search.best_at(measure, at) if cell.search else None


def _published(material: Material, measure: Measure) -> list[tuple[Entry, ...]]:
    unit = {Measure.QUERIES: r"(\d+) queries", Measure.USD: r"\$(\d+) a task"}.get(measure)
    found: list[tuple[Entry, ...]] = []
    for one in material.published:
        place = re.fullmatch(unit, one.cut) if unit else None
        if place and one.measure == "geomean":
            found.append((f"{one.contender} (published)", _PUBLISHED, float(place[1]), one.value, None, None))
        elif one.measure == "geomean" and not one.cut:
            found.append((f"{one.contender} (published)", _PUBLISHED, None, one.value, None, None))
    return found


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    x = sheet.columns[2]
    styles = look.of_contenders(sheet)
    searching = {row["contender"] for row in sheet.where(series=_SEARCH)}
    for name in (name for name in sheet.names("contender") if name in searching):
        _steps(axes, x, list(sheet.where(contender=name, series=_SEARCH)), styles[name])
    end = max(numbers(sheet.rows, x))
    for row in sheet.where(series=_LINE):
        name = str(row["contender"])
        axes.axhline(number(row["speedup"]), color=styles[name]["color"], linestyle="--", linewidth=1.0, label=name)
    axes.set_xlim(0.0, end * 1.02)
    look.one_line(axes)
    look.speedup_axis(axes, numbers(sheet.rows, "speedup", "low", "high"))
    axes.grid(axis="y")
    axes.set(xlabel=_LABELS[Measure(x)], ylabel="speedup over eager\n(clamped geomean)")
    _marks(axes, x, list(sheet.where(series=_PUBLISHED)))
    look.legend(figure, axes)


def _steps(axes: Axes, x: str, rows: list[Row], style: dict[str, str]) -> None:
    places = numbers(rows, x)
    axes.step(
        places, numbers(rows, "speedup"), where="post",
        color=style["color"], linestyle=style["linestyle"], label=str(rows[0]["contender"]),
    )  # fmt: skip
    low, high = numbers(rows, "low"), numbers(rows, "high")
    if low != high:
        axes.fill_between(places, low, high, step="post", color=style["color"], alpha=0.15, linewidth=0)


def _marks(axes: Axes, x: str, rows: list[Row]) -> None:
    """Published numbers: a mark where they were taken, a dotted line without a place."""
    for row in rows:
        if row[x] is None:
            axes.axhline(number(row["speedup"]), color=look.GREY, linestyle=":", linewidth=0.9)
        else:
            place = number(row[x]), number(row["speedup"])
            axes.plot(*place, "D", color=look.GREY, markerfacecolor="white", markersize=4, zorder=3)
    look.labels_beside(axes, [(number(row["speedup"]), str(row["contender"])) for row in rows])


KIND = FigureKind("trajectories", "geomean over queries, dollars and minutes", _plan)
