"""Line charts as inline SVG: the best so far as a step line, every valid candidate as a dot.

Knows scales and marks; the page's style sheet has the colours. Does not know journals.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 46
LOG_FROM_RATIO = 8.0
"""A vertical axis that spans more than this ratio is logarithmic."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """One dot: its place, its name for the tooltip, and whether it is the winner."""

    x: float
    y: float
    name: str
    winner: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart to draw.

    Attributes:
        label: what a screen reader says.
        x_label: text under the horizontal axis.
        y_label: text beside the vertical axis.
        x_end: the right end of the horizontal axis, which starts at 0.
        marks: dots in order of x; the step line is their running maximum and starts at (0,
            `start`).
        start: where the line begins.
        format_x: how a number on the horizontal axis is written.
        whole: the horizontal axis counts things, so that its ticks are whole numbers.
        level: a value to draw as a dashed horizontal line with its interval, None for none.
    """

    label: str
    x_label: str
    y_label: str
    x_end: float
    marks: tuple[ChartMark, ...]
    start: float
    format_x: Callable[[float], str]
    whole: bool = False
    level: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class _Scale:
    """A mapping from values to pixels, linear or logarithmic."""

    low: float
    high: float
    pixel_low: float
    pixel_high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = (math.log(v) if self.log else v for v in (self.low, self.high, max(value, self.low)))
        return self.pixel_low + (here - low) / (high - low) * (self.pixel_high - self.pixel_low)


def draw(chart: Chart) -> str:
    """The chart as one `<svg>` element."""
    x = _Scale(0.0, max(chart.x_end, 1e-12), LEFT, WIDTH - RIGHT)
    y = _vertical_scale(chart)
    parts = [*_grid(chart, x, y), *_level(chart, y), _line(chart, x, y), *_dots(chart, x, y)]
    body = "\n".join(parts)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.label, quote=True)}">'
        f"\n{body}\n</svg>"
    )


def _vertical_scale(chart: Chart) -> _Scale:
    values = [mark.y for mark in chart.marks if mark.y > 0] + [chart.start]
    values += [chart.level[2]] if chart.level else []
    top, bottom = max(values), min(values)
    if top / bottom > LOG_FROM_RATIO:
        return _Scale(bottom / 1.15, top * 1.15, HEIGHT - BOTTOM, TOP, log=True)
    return _Scale(0.0, top * 1.12, HEIGHT - BOTTOM, TOP)


def _grid(chart: Chart, x: _Scale, y: _Scale) -> list[str]:
    base, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in _log_ticks(y.low, y.high) if y.log else linear_ticks(y.high):
        at = y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:g}×</text>')
    for tick in linear_ticks(x.high, least_step=1.0 if chart.whole else 0.0):
        text = escape(chart.format_x(tick))
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{base + 18}" text-anchor="middle">{text}</text>')
    middle = (TOP + base) / 2
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{end}" y1="{base}" y2="{base}"/>')
    parts.append(
        f'<text class="label" x="{(LEFT + end) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
    )
    parts.append(
        f'<text class="label" x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{escape(chart.y_label)}</text>"
    )
    return parts


def _level(chart: Chart, y: _Scale) -> list[str]:
    if chart.level is None:
        return []
    low, value, high = (y(v) for v in chart.level)
    end = WIDTH - RIGHT
    return [
        f'<rect class="interval" x="{LEFT}" y="{high:.1f}" width="{end - LEFT}" height="{max(low - high, 1):.1f}"/>',
        f'<line class="level" x1="{LEFT}" x2="{end}" y1="{value:.1f}" y2="{value:.1f}"/>',
    ]


def _line(chart: Chart, x: _Scale, y: _Scale) -> str:
    best = chart.start
    path = f"M{x(0):.1f},{y(best):.1f}"
    for mark in chart.marks:
        if mark.y > best:
            best = mark.y
            path += f"H{x(mark.x):.1f}V{y(best):.1f}"
    return f'<path class="best" d="{path}H{x(chart.x_end):.1f}"/>'


def _dots(chart: Chart, x: _Scale, y: _Scale) -> list[str]:
    ordered = sorted(chart.marks, key=lambda mark: mark.winner)
    return [
        f'<circle class="{"winner" if mark.winner else "dot"}" cx="{x(mark.x):.1f}" cy="{y(mark.y):.1f}" '
        f'r="{6 if mark.winner else 4}"><title>{escape(mark.name)}</title></circle>'
        for mark in ordered
    ]


def linear_ticks(high: float, least_step: float = 0.0) -> Sequence[float]:
    """At most seven round numbers from 0 to `high`, at least `least_step` apart."""
    step = 10.0 ** math.floor(math.log10(high / 6))
    while high / step > 6 or step < least_step:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    return [round(step * i, 12) for i in range(int(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> Sequence[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**decade for decade in decades for factor in (1, 2, 5)]
    return [round(tick, 12) for tick in ticks if low <= tick <= high]
