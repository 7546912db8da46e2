"""Where the time of searches goes, by contender, and what ran at once over time.

Knows spans of work. Does not know verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import Material, SearchRecord, Work
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 60
_COLOURS = {
    "queries": "#0072B2",
    "building": "#E69F00",
    "correctness": "#009E73",
    "timing": "#D55E00",
    "waiting": look.FAINT,
}
_DEVICE = "device"


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    rows: list[tuple[Entry, ...]] = []
    runs: dict[str, list[SearchRecord]] = {}
    for cell, search in material.searches:
        if any(span.end > span.begin for span in search.spans):
            runs.setdefault(cell.contender, []).append(search)
    if not runs:
        lack = "no journal holds the time of a query or a verdict"
        return Lack("time", lack), Lack("occupancy", lack)
    for name, searches in runs.items():
        for work in Work:
            seconds = sum(span.end - span.begin for one in searches for span in one.spans if span.work is work)
            rows.append((name, work.value, seconds / 3600.0, len(searches)))
    values = sheet("contender work hours runs", rows, material.contenders)
    title = "Where the time of all steps goes"
    whole = Drawing("time", title, values, _draw, (6.4, 1.3 + 0.32 * len(runs)))
    over = [row for name, searches in runs.items() for row in _occupancy(name, searches)]
    values = sheet("contender minutes work mean_at_once", over, material.contenders)
    size = (6.8, 0.7 + 1.35 * len(runs))
    return whole, Drawing(
        "occupancy", "Steps at work at once, mean over the runs that go on", values, _draw_occupancy, size
    )


def _occupancy(name: str, searches: list[SearchRecord]) -> list[tuple[Entry, ...]]:
    """For each bin of time, how many steps were at each work, and the busy share of the device."""
    ends = [max(60.0 * one.ended.minutes, *(span.end for span in one.spans)) for one in searches]
    width = max(ends) / _BINS
    if width <= 0.0:
        return []
    sums: dict[str, list[float]] = {name: [0.0] * _BINS for name in (*(work.value for work in Work), _DEVICE)}
    for search in searches:
        for span in search.spans:
            keys = [span.work.value] + [_DEVICE] * span.on_device
            for at in range(min(_BINS - 1, int(span.begin / width)), min(_BINS - 1, int(span.end / width)) + 1):
                inside = min(span.end, (at + 1) * width) - max(span.begin, at * width)
                for key in keys:
                    sums[key][at] += max(0.0, inside) / width
    going = [sum(end > at * width for end in ends) for at in range(_BINS)]
    return [
        (name, (at + 0.5) * width / 60.0, key, bins[at] / going[at])
        for key, bins in sums.items()
        for at in range(_BINS)
        if going[at]
    ]


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    names = sheet.names("contender")
    for place, name in enumerate(names):
        rows = list(sheet.where(contender=name))
        total, left = sum(numbers(rows, "hours")), 0.0
        for row in rows:
            width = 100.0 * number(row["hours"]) / total if total else 0.0
            axes.barh(place, width, 0.62, left=left, color=_COLOURS[str(row["work"])], label=str(row["work"]))
            if width > 6.0:
                colour = "white" if row["work"] in ("queries", "timing", "correctness") else "black"
                share = f"{width:.0f} %"
                axes.text(left + width / 2, place, share, ha="center", va="center", fontsize=7, color=colour)
            left += width
        runs = rows[0]["runs"]
        look.beside(axes, f"{total:.3g} h in {runs} run{'s' if runs != 1 else ''}", 100, place)
    look.named_rows(axes, names)
    axes.set(xlim=(0, 100), xlabel="% of the time of all steps, side by side ones added")
    look.legend(figure, axes, columns=5)


def _draw_occupancy(figure: Figure, sheet: Sheet) -> None:
    names = sheet.names("contender")
    for axes, name in zip(figure.subplots(len(names), 1, sharex=True, squeeze=False).flat, names, strict=True):
        works = [work.value for work in Work]
        series = {key: list(sheet.where(contender=name, work=key)) for key in (*works, _DEVICE)}
        minutes = numbers(series[works[0]], "minutes")
        stacked = [numbers(series[work], "mean_at_once") for work in works]
        axes.stackplot(
            minutes, *stacked, colors=[_COLOURS[work] for work in works], labels=works, linewidth=0, step="mid"
        )
        axes.set_title(name, fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("steps at once")
        device = axes.twinx()
        shares = [100.0 * number(row["mean_at_once"]) for row in series[_DEVICE]]
        device.plot(minutes, shares, color="black", linewidth=0.9, label="device timing (right)", drawstyle="steps-mid")
        device.set(ylim=(0, 100 if max(shares) > 20 else 1.2 * max(*shares, 1.0)), ylabel="% device")
        device.spines["right"].set_visible(True)
    figure.axes[-1].set_xlim(left=0)
    figure.axes[len(names) - 1].set_xlabel("minutes of a run")
    look.legend(figure, columns=6)


KIND = FigureKind("time", "where time goes, and occupancy of workers and device over time", _plan)
