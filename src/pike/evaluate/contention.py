"""Whether other programs held the CPU while something was measured.

Knows Linux's pressure stall information: how long any runnable thread of the machine waited for a CPU. Where the kernel
does not offer it, contention is unknown and nothing is dropped. Does not know what is measured.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")


class ContentionMeter:
    """Measures the share of wall time in which some thread had to wait for a CPU."""

    def __init__(self, pressure: Path = _PRESSURE) -> None:
        self._pressure = pressure
        self._began()

    def _began(self) -> None:
        self._stalled, self._at = _stalled_seconds(self._pressure), time.monotonic()

    def share(self) -> float:
        """The share since construction or the last call, 0 to 1; 0 where the kernel does not tell."""
        stalled, at = self._stalled, self._at
        self._began()
        if stalled is None or self._stalled is None or self._at <= at:
            return 0.0
        return min(1.0, (self._stalled - stalled) / (self._at - at))


def _stalled_seconds(pressure: Path) -> float | None:
    try:
        found = re.search(r"some .*total=(\d+)", pressure.read_text())
    except OSError:
        return None
    return int(found.group(1)) / 1e6 if found else None
