"""The tree of a search: every candidate in the order of verdicts, with its role and its best path.

Knows descent, and the islands of an evolutionary search.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import DrawnCell, Material, SearchRecord
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Row, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROLES = {
    "coa": "written (coa)",
    "efa": "repaired (efa)",
    "code": "from a plan (code)",
    "debug": "repaired (debug)",
    "outside": "seed from outside",
}
_ORIGINAL = "original"


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    """One tree for each contender that searched: its run with the highest speedup."""
    chosen: dict[str, tuple[DrawnCell, SearchRecord]] = {}
    for cell, search in material.searches:
        known = chosen.get(cell.contender)
        if search.attempts and (known is None or (cell.speedup or 0.0) > (known[0].speedup or 0.0)):
            chosen[cell.contender] = cell, search
    if not chosen:
        return (Lack("tree", "no search has a judged candidate"),)
    several = len(chosen) > 1
    trees = [
        Drawing(
            f"tree-{_slug(name)}" if several else "tree",
            f"Tree of {name} on {look.short(cell.task)}, repeat {cell.repeat + 1}",
            _sheet(search),
            _draw,
            (7.0, 3.8),
        )
        for name, (cell, search) in chosen.items()
    ]
    return (*trees, *_islands(chosen))


def _sheet(search: SearchRecord) -> Sheet:
    path, at = set(), search.best
    while at and at not in path and (attempt := search.attempt(at)) is not None:
        path.add(at)
        at = attempt.seed
    rows: list[tuple[Entry, ...]] = [
        (place + 1, one.id, one.seed, one.role, one.model, one.status, one.speedup, int(one.id in path), one.island)
        for place, one in enumerate(search.attempts)
    ]
    return sheet("place candidate seed role model status speedup on_best_path island", rows)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-")


def _draw(figure: Figure, sheet: Sheet) -> None:
    refused = [row for row in sheet.rows if row["speedup"] is None]
    axes = figure.subplots()
    values = numbers(sheet.rows, "speedup")
    look.speedup_axis(axes, values)
    floor = _floor(axes) if refused else None
    places: dict[str, tuple[float, float]] = {_ORIGINAL: (0.0, 1.0)}
    for row in sheet.rows:
        y = floor if row["speedup"] is None else number(row["speedup"])
        places[str(row["candidate"])] = number(row["place"]), y or 1.0
    _edges(axes, sheet, places)
    _nodes(axes, sheet, places)
    axes.plot(0, 1.0, "o", color="white", markeredgecolor=look.GREY, markersize=6, zorder=4)
    axes.annotate("original", (0, 1.0), (4, -9), textcoords="offset points", fontsize=6.5, color=look.GREY)
    if floor is not None:
        axes.annotate(
            f"{len(refused)} refused", (1.0, floor), (4, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", fontsize=6.5, va="center", color=look.GREY, annotation_clip=False,
        )  # fmt: skip
    axes.set_xlim(-0.02 * len(sheet.rows), len(sheet.rows) * 1.02 + 0.5)
    axes.set(xlabel="candidates in the order of their verdicts", ylabel="speedup over eager")
    look.legend(figure, axes, columns=5)


def _floor(axes: Axes) -> float:
    """Room below the valid candidates for a strip of the refused ones."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        ratio: float = (high / low) ** 0.12
        axes.set_ylim(low / ratio, high)
        return float(low / ratio**0.6)
    axes.set_ylim(low - 0.12 * (high - low), high)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])
    return float(low - 0.07 * (high - low))


def _edges(axes: Axes, sheet: Sheet, places: dict[str, tuple[float, float]]) -> None:
    from matplotlib.collections import LineCollection

    pairs = [
        (row, places[str(row["seed"])], places[str(row["candidate"])]) for row in sheet.rows if row["seed"] in places
    ]
    usual = [[begin, end] for row, begin, end in pairs if not row["on_best_path"]]
    best = [[begin, end] for row, begin, end in pairs if row["on_best_path"]]
    axes.add_collection(LineCollection(usual, colors="#BBBBBB", linewidths=0.4, alpha=0.7, zorder=1), autolim=False)
    axes.add_collection(LineCollection(best, colors="black", linewidths=1.4, zorder=3), autolim=False)


def _nodes(axes: Axes, sheet: Sheet, places: dict[str, tuple[float, float]]) -> None:
    styles = look.styles(tuple(_ROLES))
    for role in sheet.names("role"):
        rows: list[Row] = list(sheet.where(role=role))
        style = styles.get(role, {"color": look.GREY, "marker": "o"})
        for valid in (True, False):
            found = [places[str(row["candidate"])] for row in rows if (row["speedup"] is not None) == valid]
            axes.plot(
                [x for x, _ in found], [y for _, y in found], style["marker"] if valid else "x", color=style["color"],
                markersize=4 if valid else 3, linestyle="", zorder=2 if valid else 1, alpha=0.9 if valid else 0.6,
                markeredgewidth=0 if valid else 0.7, label=_ROLES.get(role, role) if valid else None,
            )  # fmt: skip
    for name, style in look.styles(sorted(sheet.names("island"), key=int)).items():
        rings = [places[str(row["candidate"])] for row in sheet.where(island=int(name))]
        axes.plot(
            *zip(*rings, strict=True), "o", color="none", markeredgecolor=style["color"], markersize=8,
            label=f"island {int(name) + 1}",
        )  # fmt: skip
    axes.plot([], [], color="black", linewidth=1.4, label="path to the best")


def _islands(chosen: dict[str, tuple[DrawnCell, SearchRecord]]) -> list[Drawing | Lack]:
    found: list[Drawing | Lack] = []
    for name, (cell, search) in chosen.items():
        rows: list[tuple[Entry, ...]] = []
        best: dict[int, float] = {}
        for place, one in enumerate(search.attempts, 1):
            if one.island is not None and one.speedup is not None:
                best[one.island] = max(one.speedup, best.get(one.island, 0.0))
                rows.append((place, one.id, one.island, one.speedup, best[one.island]))
        if rows:
            title = f"Best of each island: {name} on {look.short(cell.task)}, repeat {cell.repeat + 1}"
            values = sheet("place candidate island speedup best", rows)
            found.append(Drawing(f"islands-{_slug(name)}", title, values, _draw_islands))
    return found or [
        Lack("islands", "no search has several islands, as far as it can be repeated or was imported with them")
    ]


def _draw_islands(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    islands = sorted({int(number(row["island"])) for row in sheet.rows})
    styles = look.styles([str(island) for island in islands])
    end = max(numbers(sheet.rows, "place"))
    for island in islands:
        rows, style = list(sheet.where(island=island)), styles[str(island)]
        places = numbers(rows, "place")
        speedups = numbers(rows, "speedup")
        axes.plot(places, speedups, style["marker"], color=style["color"], alpha=0.5, markersize=3, linestyle="")
        bests = numbers(rows, "best")
        axes.step([*places, end], [*bests, bests[-1]], where="post", color=style["color"], label=f"island {island + 1}")
    look.one_line(axes)
    look.speedup_axis(axes, numbers(sheet.rows, "speedup"))
    axes.set_xlim(0, end * 1.02)
    axes.set(xlabel="candidates in the order of their verdicts", ylabel="speedup over eager")
    look.legend(figure, axes, columns=5)


KIND = FigureKind(
    "tree", "tree of the candidates with roles and the path to the best, and the islands", _plan, reads_islands=True
)
