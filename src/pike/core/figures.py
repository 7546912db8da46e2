"""How figures are written for people: milliseconds, speedups, money, durations, errors.

Knows formats. Does not know the meaning of a figure. One that is not a number is missing.
"""

import math
from datetime import UTC, datetime

from pike.core.verdict.evaluation import SHARED_DEVICE, Evaluation

NOTHING = "–"
"""The sign for a missing figure."""


def ms(value: float | None) -> str:
    """Milliseconds with three significant digits: `0.0123 ms`, `4.56 ms`, `1,234 ms`."""
    return NOTHING if value is None or math.isnan(value) else f"{_significant(value)} ms"


def times(value: float | None) -> str:
    """A speedup: `2.21×`."""
    return NOTHING if value is None else f"{value:.2f}×" if value < 100 else f"{value:,.0f}×"


def interval(bounds: tuple[float, float] | None) -> str:
    """A 95 % interval of a speedup: `2.18 to 2.25`."""
    return NOTHING if bounds is None or math.isnan(bounds[0]) else f"{bounds[0]:.2f} to {bounds[1]:.2f}"


def usd(value: float | None) -> str:
    """Money: `$0.0123` below a dollar, `$12.34` above."""
    if value is None:
        return NOTHING
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def error(value: float | None) -> str:
    """An error with two significant digits: `1.2e-06`, `0` where it is exactly zero."""
    return NOTHING if value is None else "0" if value == 0 else f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """A duration: `4.2 s`, `3 min 12 s`, `2 h 05 min`."""
    if seconds is None:
        return NOTHING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count(value: float | None) -> str:
    """A whole number with thousands separated: `12,345`."""
    return NOTHING if value is None else f"{value:,.0f}"


def moment(unix_seconds: float) -> str:
    """A time of day: `2026-01-31 14:05 UTC`."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def disturbance(evaluation: Evaluation | None) -> str:
    """A warning where other programs disturbed a measurement too much, else nothing."""
    if evaluation is None or not evaluation.disturbed:
        return ""
    if SHARED_DEVICE in evaluation.labels:
        return "Kernels of other programs ran on the GPU while this was measured: its times are unreliable."
    share = evaluation.timing.contention if evaluation.timing else 0.0
    return f"Other programs held the CPU in {share:.0%} of the time while this was measured: its times are unreliable."


def rate(value: float, unit: str, share: float | None = None) -> str:
    """A rate with a decimal prefix: `1.23 TB/s`, `1.23 TB/s (45.0% of the device's)`."""
    for prefix in ("", "k", "M", "G", "T"):
        if value < 1000 or prefix == "T":
            break
        value /= 1000
    text = f"{_significant(value)} {prefix}{unit}"
    return text if share is None else f"{text} ({share:.1%} of the device's)"


def plural(number: int, noun: str) -> str:
    """A number with its noun: `1 candidate`, `12 candidates`, `3 queries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def _significant(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    digits = 3 if value == 0 else max(0, 2 - int(f"{abs(value):e}".split("e")[1]))
    return f"{value:.{min(digits, 6)}f}"
