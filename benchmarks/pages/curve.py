"""Curves over seconds as SVG: thin ones for each task, a strong one for their mean.

Knows lines and text. Does not know what a curve stands for. Needs no library, so that the image is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from pages.chart import INK, LINE, OTHERS, PAPER, RECIPES

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 56, 20, 60, 40
MOST_MARKS = 8


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (seconds, share from 0 to 1) in order."""

    points: Sequence[tuple[float, float]]
    strong: bool = False


def drawn(title: str, subtitle: str, curves: Sequence[Curve]) -> str:
    """The figure of curves that share their axes."""
    end, subtitle = max(at for curve in curves for at, _ in curve.points), escape(subtitle)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{PAPER}" stroke="{LINE}"/>',
        f'<text x="16" y="26" font-size="15" font-weight="600" fill="{INK}">{title}</text>',
        f'<text x="16" y="44" fill="{INK}">{subtitle}</text>',
        *_axes(end),
        *(_line(curve, end) for curve in sorted(curves, key=lambda curve: curve.strong)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _axes(end: float) -> Iterator[str]:
    step = next((step for step in (10, 15, 30, 60, 120, 300) if end / step <= MOST_MARKS), 600)
    for seconds in range(0, int(end) + 1, step):
        x = _x(seconds, end)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="{LINE}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="{INK}">{seconds} s</text>'
    for percent in (0, 25, 50, 75, 90, 100):
        y = _y(percent / 100)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{LINE}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{INK}">{percent} %</text>'


def _line(curve: Curve, end: float) -> str:
    points = " ".join(f"{_x(at, end):.1f},{_y(share):.1f}" for at, share in curve.points)
    colour, width = (RECIPES, 3) if curve.strong else (OTHERS, 1)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" opacity="0.8"/>'


def _x(seconds: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
