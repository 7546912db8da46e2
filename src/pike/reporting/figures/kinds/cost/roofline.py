"""The roofline of a task before and after, and the time of both by kernel.

Knows profiles. A candidate may move fewer bytes than the reference must: points lie at the work of
the reference, which is the same for both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pike.core.verdict.profile import Profile
from pike.reporting.figures import look
from pike.reporting.figures.data.records import DrawnCell, Material, SearchRecord
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Row, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BEFORE, _AFTER, _CEILING = "original", "best", "ceilings"
_REST = "(rest)"
_NAME_CHARACTERS = 46
_KERNELS = 6
"""The most kernels that are shown of one profile."""


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    found = [(cell, search, *_profiles(search)) for cell, search in material.searches]
    known = [one for one in found if one[2] or one[3]]
    if not known:
        lack = "no candidate was profiled: search with --set prompt.profile=true"
        return Lack("roofline", lack), Lack("kernels", lack)
    return _roofline(material, known), _kernels(known)


def _profiles(search: SearchRecord) -> tuple[Profile | None, Profile | None]:
    best = search.attempt(search.best)
    return search.original_profile, best.profile if best else None


_Known = list[tuple[DrawnCell, SearchRecord, Profile | None, Profile | None]]


def _roofline(material: Material, known: _Known) -> Drawing | Lack:
    rows: list[tuple[Entry, ...]] = []
    for cell, _, before, after in known:
        for which, profile in ((_BEFORE, before), (_AFTER, after)):
            if profile and profile.operations and profile.least_bytes and profile.operations_per_second:
                intensity = profile.operations / profile.least_bytes
                said = cell.contender, cell.task, cell.repeat
                rows.append((*said, which, intensity, profile.operations_per_second, None, None))
                if profile.ceilings:
                    top = profile.ceilings.operations_per_second, profile.ceilings.bytes_per_second
                    rows.append((*said, _CEILING, None, None, *top))
    if not any(row[3] != _CEILING for row in rows):
        return Lack("roofline", "no profile counts operations: the task has no products, convolutions or attention")
    columns = "contender task repeat which operations_per_byte operations_per_second most_operations most_bytes"
    title = "Roofline: the original and the best of each search"
    return Drawing("roofline", title, sheet(columns, rows, material.contenders), _draw, (6.0, 3.8))


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    points = [row for row in sheet.rows if row["which"] != _CEILING]
    xs = numbers(points, "operations_per_byte")
    left, right = min(xs) / 4, max(xs) * 4
    for row in {(row["most_operations"], row["most_bytes"]): row for row in sheet.where(which=_CEILING)}.values():
        top, rate = number(row["most_operations"]), number(row["most_bytes"])
        ridge = top / rate
        left, right = min(left, ridge / 4), max(right, ridge * 4)
        axes.plot(
            [left, ridge, right], [left * rate, top, top], color=look.GREY, linewidth=1.2, label="measured ceilings"
        )
    _moves(axes, sheet, points)
    axes.loglog()
    axes.set_xlim(left, right)
    low, high = axes.get_ylim()
    look.log_ticks(axes.yaxis, math.log10(high / low), lambda value: f"{value / 1e9:g}")
    look.log_ticks(axes.xaxis, math.log10(right / left), lambda value: f"{value:g}")
    axes.grid()
    axes.set(xlabel="operations a byte, as the reference must move and compute", ylabel="GFLOP/s")
    look.legend(figure, axes)


def _moves(axes: Axes, sheet: Sheet, points: list[Row]) -> None:
    """A line from the original (hollow) to the best (full) of each search."""
    styles = look.of_contenders(sheet)
    for name in sheet.names("contender"):
        axes.plot([], [], "o", color=styles[name]["color"], label=f"{name}, best")
    if any(row["which"] == _BEFORE for row in points):
        axes.plot([], [], "o", color=look.GREY, markerfacecolor="white", label="original")
    places: dict[tuple[str, Entry, Entry], list[tuple[float, float]]] = {}
    for row in points:
        x, y = number(row["operations_per_byte"]), number(row["operations_per_second"])
        places.setdefault((str(row["contender"]), row["task"], row["repeat"]), []).append((x, y))
        colour = styles[str(row["contender"])]["color"]
        axes.plot(x, y, "o", color=colour, markerfacecolor=colour if row["which"] == _AFTER else "white", zorder=3)
    for (name, *_), ends in places.items():
        axes.plot(*zip(*ends, strict=True), color=styles[name]["color"], linewidth=0.8)


def _kernels(known: _Known) -> Drawing | Lack:
    cell, search, before, after = max(known, key=lambda one: (bool(one[2]) + bool(one[3]), one[0].speedup or 0.0))
    best = search.attempt(search.best)
    rows: list[tuple[Entry, ...]] = []
    after_ms = best.profiled_ms if best else None
    for which, profile, ms in ((_BEFORE, before, search.original_ms), (_AFTER, after, after_ms)):
        if profile and profile.hotspots and ms:
            said, rest_ms = (cell.contender, cell.task, which), ms
            busy = 1.0 if profile.busy_share is None else min(1.0, profile.busy_share)
            for hotspot in profile.hotspots:
                taken = ms * busy * hotspot.share
                rest_ms -= taken
                rows.append((*said, hotspot.name, hotspot.share, hotspot.calls, taken))
            rows.append((*said, _REST, None, None, max(0.0, rest_ms)))
    if not rows:
        return Lack("kernels", "no profile names a kernel")
    columns = "contender task which kernel share calls ms"
    shown = sum(min(_KERNELS, sum(row[2] == which for row in rows)) + 1 for which in (_BEFORE, _AFTER))
    title = f"Time by kernel: {cell.contender} on {look.short(cell.task)}"
    return Drawing("kernels", title, sheet(columns, rows), _draw_kernels, (7.0, 1.0 + 0.2 * shown))


def _draw_kernels(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    place, labels = 0, []
    for which, colour in ((_BEFORE, look.COLOURS[4]), (_AFTER, look.COLOURS[0])):
        rows = sorted(sheet.where(which=which), key=lambda row: (row["kernel"] == _REST, -number(row["ms"])))
        shown = [(str(row["kernel"]), number(row["ms"])) for row in rows if row["kernel"] != _REST][:_KERNELS]
        others = [number(row["ms"]) for row in rows[len(shown) :]]
        for kernel, ms in [*shown, *([("all others, and gaps", sum(others))] if others else [])]:
            axes.barh(place, ms, 0.7, color=colour, label=which)
            axes.annotate(f"{ms:.3g} ms", (ms, place), (4, 0), textcoords="offset points", va="center", fontsize=6.5)
            labels.append(kernel if len(kernel) <= _NAME_CHARACTERS else f"{kernel[: _NAME_CHARACTERS - 3]}...")
            place += 1
    look.named_rows(axes, labels, fontsize=6.5)
    axes.margins(x=0.15)
    axes.set_xlabel("ms of one call")
    look.legend(figure, axes)


KIND = FigureKind("roofline", "roofline before and after, and time by kernel", _plan)
