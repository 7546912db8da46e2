"""The tables of STARK (arXiv 2510.16996): success, fast1, speed, and rates of attempts.

Knows that its speed is an arithmetic mean over tasks, and says so. Does not know geomeans.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pike.core.verdict.evaluation import Status
from pike.reporting.figures import look
from pike.reporting.figures.data.records import DrawnCell, Material
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, numbers, sheet
from pike.reporting.figures.tabular import TextCell, latex, markdown
from pike.reporting.standings import fast_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MEASURES = {
    "success": "success",
    "fast1_eager": "fast1 over eager",
    "fast1_compile": "fast1 over torch.compile",
    "mean_speed": "mean speed over eager\n(arithmetic)",
    "compiles": "attempts that compile",
    "correct": "attempts that are correct",
}
_IN_A_LINE = 3
_COMPILE = "compile"
_BROKEN = {Status.PARSE_ERROR.value, Status.BUILD_ERROR.value, Status.LOAD_ERROR.value}


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    found: list[Drawing | Lack] = []
    for ending, part in material.by_suite():
        found += [_table(part, material, ending), _pairs(part, ending)]
    return tuple(found)


def _table(part: Material, whole: Material, ending: str) -> Drawing:
    rows: list[tuple[Entry, ...]] = [(name, *_measures(part, name), "measured") for name in part.contenders]
    groups = dict.fromkeys(
        (one.suite, one.contender, one.source) for one in whole.published if one.measure != "geomean"
    )
    for suite, contender, source in groups:
        known = {one.measure: one.value for one in whole.published if (one.suite, one.contender) == (suite, contender)}
        given = known.get("success"), known.get("fast1"), None, known.get("mean speed"), None, None
        rows.append((f"{contender}, {suite}", *given, source))
    head = ["contender", *(label.replace("\n", " ") for label in _MEASURES.values())]
    values = sheet(" ".join(["contender", *_MEASURES, "source"]), rows, part.contenders)
    body = [_written(values, at) for at in range(len(rows))]
    return Drawing(
        f"success{ending}",
        "Success, fast1 and arithmetic mean speed by task; compile and correct rates of attempts",
        values,
        _draw,
        (7.2, 1.2 + 0.24 * len(rows) * 2),
        ((".md", markdown(head, body)), (".tex", latex(head, body))),
    )


def _measures(material: Material, name: str) -> tuple[float | None, ...]:
    cells = material.of(name)
    speedups = [cell.speedup for cell in cells]
    known = [speedup for speedup in speedups if speedup is not None]
    rivals: Sequence[DrawnCell] = [] if name.startswith(_COMPILE) else cells
    over = [speedup for cell in rivals if (speedup := _over_compile(material, cell)) is not None]
    attempts = [one for cell in cells if cell.search for one in cell.search.own_attempts]
    total = len(attempts)
    return (
        len(known) / len(cells),
        fast_share(speedups, 1.0),
        fast_share([one or None for one in over], 1.0) if over else None,
        statistics.fmean(known) if known else None,
        sum(one.status not in _BROKEN for one in attempts) / total if total else None,
        sum(one.valid for one in attempts) / total if total else None,
    )


def _over_compile(material: Material, cell: DrawnCell) -> float | None:
    """A cell's speedup over the fastest `torch.compile` on its task; 0 without a candidate."""
    found = [
        other.speedup
        for other in material.cells
        if other.task == cell.task and other.speedup and other.contender.startswith(_COMPILE)
    ]
    beside = cell.search.baselines if cell.search else {}
    found += [speedup for name, speedup in beside.items() if speedup and name.startswith(_COMPILE)]
    return (cell.speedup or 0.0) / max(found) if found else None


def _written(values: Sheet, at: int) -> list[TextCell]:
    row, ours = values.rows[at], [one for one in values.rows if one["source"] == "measured"]
    cells = [TextCell(str(row["contender"]))]
    for measure in _MEASURES:
        value, known = row[measure], [number(one[measure]) for one in ours if one[measure] is not None]
        best = value is not None and row["source"] == "measured" and number(value) == max(known) and len(ours) > 1
        cells.append(TextCell("" if value is None else _text(measure, number(value)), best))
    return cells


def _text(measure: str, value: float) -> str:
    return f"{value:.2f}×" if measure == "mean_speed" else f"{value:.0%}"


def _draw(figure: Figure, sheet: Sheet) -> None:
    known = [measure for measure in _MEASURES if any(row[measure] is not None for row in sheet.rows)]
    lines = 1 + (len(known) > _IN_A_LINE)
    grid = list(figure.subplots(lines, -(-len(known) // lines), sharey=True, squeeze=False).flat)
    for axes, measure in zip(grid, known, strict=False):
        _panel(axes, sheet, measure)
    for axes in grid[len(known) :]:
        axes.set_axis_off()


def _panel(axes: Axes, sheet: Sheet, measure: str) -> None:
    styles, speed = look.of_contenders(sheet), measure == "mean_speed"
    values = numbers(sheet.rows, measure)
    base, most = (1.0, max([1.1, *values])) if speed else (0.0, 1.0)
    for place, row in enumerate(sheet.rows):
        name, ours = str(row["contender"]), row["source"] == "measured"
        colour = styles[name]["color"] if ours else look.GREY
        if row[measure] is None:
            axes.text(base, place, " –", va="center", fontsize=7, color=look.GREY)
            continue
        value = number(row[measure])
        axes.plot([base, value], [place, place], color=look.FAINT, linewidth=2.5, solid_capstyle="butt", zorder=1)
        axes.plot(value, place, "o", color=colour, markerfacecolor=colour if ours else "white", zorder=3)
        look.beside(axes, _text(measure, value), value, place, size=6.5)
    low = min([base, *values])
    axes.set_xlim(low - 0.02 * (most - low), most + 0.3 * (most - low))
    look.named_rows(axes, [str(row["contender"]) for row in sheet.rows])
    ticks = [base, most]
    axes.set_xticks(ticks, [f"{one:.2g}×" if speed else f"{one:.0%}" for one in ticks])
    axes.set_title(_MEASURES[measure], fontsize=7.5, weight="normal")


def _pairs(material: Material, ending: str) -> Drawing | Lack:
    """Every contender against every other, by the mean ratio of speedups on tasks that both solved."""
    name = f"success-pairs{ending}"
    contenders = material.contenders
    if len(contenders) < 2:
        return Lack(name, "there is one contender: name a campaign or suite with several")
    rows = []
    for one in contenders:
        for other in contenders:
            ratios = _ratios(material.of(one), material.of(other)) if one != other else []
            rows.append((one, other, statistics.fmean(ratios) if ratios else None, len(ratios)))
    size = 2.2 + 0.62 * len(contenders)
    title = "Mean ratio of speedups, row over column (arithmetic)"
    values = sheet("contender against mean_ratio tasks", rows, contenders)
    return Drawing(name, title, values, _draw_pairs, (size + 0.6, 0.9 + 0.4 * len(contenders)))


def _ratios(ours: Sequence[DrawnCell], theirs: Sequence[DrawnCell]) -> list[float]:
    found = []
    for task in dict.fromkeys(cell.task for cell in ours):
        mine, other = (
            [cell.speedup for cell in cells if cell.task == task and cell.speedup] for cells in (ours, theirs)
        )
        if mine and other:
            found.append(statistics.median(mine) / statistics.median(other))
    return found


def _draw_pairs(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    names = sheet.order
    for row in sheet.rows:
        x, y, value = names.index(str(row["against"])), names.index(str(row["contender"])), row["mean_ratio"]
        if value is not None:
            shown = round(number(value), 2)
            shade = "#EEEEEE" if shown == 1.0 else "#CFE3F1" if shown > 1.0 else "#F8DFCC"
            axes.barh(y, 0.96, 0.92, left=x - 0.48, color=shade)
            axes.text(x, y, f"{number(value):.2f}×", ha="center", va="center", fontsize=7)
    look.matrix(axes, names, names)


KIND = FigureKind(
    "success", "STARK's tables: success, fast1, arithmetic mean speed, rates of attempts", _plan, of_searches=False
)
