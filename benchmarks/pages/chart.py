"""A bar chart of one suite on one device as SVG: for each precision, what every contender reaches.

Knows rectangles and text. Does not know files, and needs no library, so that the image is the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pike.core import figures
from pike.reporting.results import Column, ResultsTable

WIDTH, LABELS, BAR, GAP, HEAD = 760, 190, 20, 18, 54
RECIPES, OTHERS, INK, PAPER, LINE = "#3f51b5", "#9aa3ad", "#1f2328", "#ffffff", "#d0d7de"
LEAST_SHARE = 0.9
"""A contender stands in the chart where it was tried on this share of the tasks."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: whose, how long, and whether it is PIKE's own."""

    label: str
    value: float
    own: bool


def all_counted(found: ResultsTable, column: Column) -> float:
    """A column's clamped geomean over all tasks, with 1 for each that has no verdict."""
    return 1.0 if column.clamped is None else float(column.clamped ** (column.tried / len(found.tasks)))


def chart(found: Sequence[ResultsTable]) -> str:
    """The chart of tables that share suite and device."""
    groups = [(one.precision.value, bars_of(one)) for one in found]
    most = max(bar.value for _, bars in groups for bar in bars)
    height = HEAD + sum(GAP + 18 + (BAR + 4) * len(bars) for _, bars in groups) + 26
    title = f"{found[0].suite} on {found[0].device}: speedup over eager PyTorch"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{PAPER}" stroke="{LINE}"/>',
        f'<text x="16" y="26" font-size="15" font-weight="600" fill="{INK}">{title}</text>',
        f'<text x="16" y="44" fill="{INK}">Clamped geometric mean over {len(found[0].tasks)} tasks</text>',
        *_drawn(groups, (WIDTH - LABELS - 80) / most),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def bars_of(found: ResultsTable) -> list[Bar]:
    """The bars of one precision, the longest first."""
    enough = [one for one in found.columns if one.tried >= LEAST_SHARE * len(found.tasks)]
    bars = [_bar(found, column) for column in enough]
    return sorted(bars, key=lambda bar: -bar.value)


def _bar(found: ResultsTable, column: Column) -> Bar:
    own = column.contender.name == "recipes"
    label = "PIKE recipes (winners)" if own else column.contender.name.replace("compile", "torch.compile", 1)
    return Bar(label.replace("torch.compile:", "compile: "), all_counted(found, column), own)


def _drawn(groups: Sequence[tuple[str, Sequence[Bar]]], scale: float) -> Iterator[str]:
    y = HEAD
    for precision, bars in groups:
        y += GAP + 14
        yield f'<text x="16" y="{y}" font-weight="600" fill="{INK}">precision {precision}</text>'
        y += 8
        for bar in bars:
            weight, colour = ("600", RECIPES) if bar.own else ("400", OTHERS)
            length, middle = bar.value * scale, y + BAR - 5
            yield f'<text x="{LABELS - 8}" y="{middle}" text-anchor="end" fill="{INK}">{bar.label}</text>'
            yield f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
            x, value = LABELS + length + 6, figures.times(bar.value)
            yield f'<text x="{x:.1f}" y="{middle}" font-weight="{weight}" fill="{INK}">{value}</text>'
            y += BAR + 4
