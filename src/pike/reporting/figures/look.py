"""The look of all figures: colours, axes of speedups, legends.

Knows matplotlib's axes, not the meaning of values. The style sheet `pike.mplstyle` holds fonts and
sizes; the colours are those of Okabe and Ito, which colour-blind people can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pike.reporting.figures.arithmetic import over_search
from pike.reporting.figures.drawing import Row, Sheet, number, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#000000")
DASHES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY, FAINT = "#6B6B6B", "#D9D9D9"
_LOG_FROM = 8.0
"""Speedups that span more than this ratio are drawn on a logarithmic axis."""


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour, dash and mark for each name; beyond eight the dashes tell them apart."""
    return {
        name: {
            "color": COLOURS[at % len(COLOURS)],
            "linestyle": DASHES[at // len(COLOURS) % len(DASHES)],
            "marker": MARKS[at % len(MARKS)],
        }
        for at, name in enumerate(names)
    }


def of_contenders(sheet: Sheet) -> dict[str, dict[str, Any]]:
    """The styles of contenders: the same in every figure of one material."""
    return styles(sheet.order or sheet.names("contender"))


def speedup_axis(axes: Axes, values: Iterable[float], *, which: str = "y", anchor: float | None = 1.0) -> None:
    """Fit an axis to speedups: around the values and 1, logarithmic where they span much."""
    known = [value for value in values if value > 0 and math.isfinite(value)] + ([anchor] if anchor else [])
    low, high = min(known, default=0.9), max(known, default=1.1)
    set_scale, set_limits = (axes.set_yscale, axes.set_ylim) if which == "y" else (axes.set_xscale, axes.set_xlim)
    axis = axes.yaxis if which == "y" else axes.xaxis
    if high / low > _LOG_FROM:
        set_scale("log")
        room = (high / low) ** 0.06
        set_limits(low / room, high * room)
        log_ticks(axis, math.log10(high / low), lambda value: f"{value:g}×")
    else:
        room = max(0.06 * (high - low), 0.01 * high)
        set_limits(low - room, high + room)
        axis.set_major_formatter(lambda value, _: f"{round(value, 6):g}×")


def log_ticks(axis: Any, decades: float, text: Callable[[float], str]) -> None:
    """Plain numbers on a logarithmic axis, also between powers of ten where it spans few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if decades < 3 else (1,)))
    axis.set_major_formatter(lambda value, _: text(value))
    axis.set_minor_formatter(NullFormatter())


def one_line(axes: Axes) -> None:
    """The line at 1: the original."""
    axes.axhline(1.0, color=GREY, linewidth=0.8, zorder=1)


def named_rows(axes: Axes, names: Sequence[str], **text: Any) -> None:
    """Rows from the top down, a name beside each."""
    axes.set_yticks(range(len(names)), names, **text)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def matrix(axes: Axes, columns: Sequence[str], rows: Sequence[str], *, slanted: bool = True) -> None:
    """Unit squares from the top left in no frame; names above the columns and beside the rows."""
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns, rotation=30 if slanted else 0, ha="left" if slanted else "center")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for side in axes.spines.values():
        side.set_visible(False)


def mean_over_search(
    axes: Axes, rows: Sequence[Row], column: str, *, times: float = 1.0, bins: int = 10, **style: Any
) -> None:
    """A line through the means of a column by where in the search its rows stand."""
    places, values = numbers(rows, "place_in_search"), [times * number(row[column]) for row in rows]
    means = over_search(places, values, bins)
    axes.plot([100.0 * at for at, _ in means], [mean for _, mean in means], **style)
    axes.set(xlim=(0, 100), xlabel="% of the search")
    axes.grid(axis="y")


def points(axes: Axes, sheet: Sheet, x: str, y: str) -> None:
    """A point for each row, in the look of its contender."""
    styles = of_contenders(sheet)
    for name in sheet.names("contender"):
        rows, style = list(sheet.where(contender=name)), styles[name]
        axes.plot(
            numbers(rows, x), numbers(rows, y),
            style["marker"], color=style["color"], alpha=0.6, markersize=3.5, linestyle="", label=name,
            markeredgewidth=0,
        )  # fmt: skip


def legend(figure: Figure, axes: Axes | None = None, *, columns: int = 3) -> None:
    """A legend below the axes, where it covers nothing."""
    found: dict[str, Any] = {}
    for one in [axes] if axes is not None else figure.axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            found[label] = handle
    if found:
        columns = min(columns, len(found))
        figure.legend(handles=list(found.values()), labels=list(found), loc="outside lower center", ncols=columns)


def beside(axes: Axes, text: str, x: float, y: float, *, size: float = 7.0) -> None:
    """Write something to the right of a place, also where that is outside of the axes."""
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center", fontsize=size, annotation_clip=False)


def labels_beside(axes: Axes, values: Sequence[tuple[float, str]]) -> None:
    """Names of values of the vertical axis, right of it; close ones are moved apart."""
    places = [axes.transAxes.inverted().transform(axes.transData.transform((0.0, value)))[1] for value, _ in values]
    order = sorted(range(len(values)), key=lambda at: places[at])
    height, last = 0.047, -1.0
    put: dict[int, float] = {}
    for at in order:
        put[at] = last = max(places[at], last + height)
    ceiling = 1.0
    for at in reversed(order):
        put[at] = min(put[at], ceiling)
        ceiling = put[at] - height
    for at, (_, name) in enumerate(values):
        axes.annotate(
            name, (1.0, places[at]), (1.04, put[at]), xycoords="axes fraction", textcoords="axes fraction", fontsize=6,
            va="center", color=GREY, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 1},
        )  # fmt: skip


def short(task: str) -> str:
    """A task's name without its suite."""
    return task.rpartition("/")[2]
