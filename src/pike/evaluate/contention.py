"""Whether other programs held the CPU while something was measured.

Knows two accounts of Linux: how long any runnable thread of the machine waited for a CPU (pressure stall information),
and how long its CPUs ran anything else than given processes. One alone says little: threads of one model wait for each
other, and others may run on CPUs that nobody needs. Where the kernel tells no pressure, contention is unknown and
nothing is dropped. Does not know what is measured.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_SECONDS = 1.0 / os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT = 4, 5
_ROUNDING_SECONDS = 2 * _TICK_SECONDS
"""By how much idle time, which the kernel tells in ticks, may seem shorter between two looks than it was."""


@dataclass(frozen=True, slots=True)
class Contention:
    """How much the CPU was wanted.

    Attributes:
        waited: share of the time in which some thread of the machine waited for a CPU, ours among them.
        others: CPU time that went to others, those of the host included, for each second; infinite if unknown.
    """

    waited: float
    others: float

    @property
    def share(self) -> float:
        """The share of the time, 0 to 1, in which others kept somebody waiting, at most."""
        return min(self.waited, self.others)


@dataclass(frozen=True, slots=True)
class _Look:
    """Seconds so far: on the clock, in which some thread waited (None if unknown), in which others ran."""

    at: float
    waited: float | None
    others: float


class ContentionMeter:
    """Measures how much other programs hold the CPU.

    Args:
        ours: the processes that are not others.
        proc: where the kernel tells of itself.
    """

    def __init__(self, ours: Iterable[int] = (), proc: Path = _PROC) -> None:
        self._ours, self._proc = dict.fromkeys(ours, 0.0), proc
        self._first = self._last = self._look()

    def read(self) -> Contention:
        """What was waited since construction or the last call, and what went to others since construction.

        The latter needs more than a moment to be known, because the kernel counts it in ticks.
        """
        before, now = self._last, self._look()
        self._last = now
        if before.waited is None or now.waited is None or now.at <= before.at:
            return Contention(0.0, math.inf)
        waited = min(1.0, (now.waited - before.waited) / (now.at - before.at))
        others = (now.others - self._first.others - _ROUNDING_SECONDS) / (now.at - self._first.at)
        return Contention(waited, math.inf if math.isnan(others) else max(0.0, others))

    def _look(self) -> _Look:
        for pid in self._ours:
            with contextlib.suppress(OSError):  # it ended: what it used till the last look is what is known
                self._ours[pid] = _cpu_seconds(pid)
        at = time.monotonic()
        return _Look(at, _waited_seconds(self._proc), _busy_seconds(self._proc, at) - sum(self._ours.values()))


def _cpu_seconds(pid: int) -> float:
    """The CPU time of all threads that a process has and had, by its clock (`man clock_getcpuclockid`).

    Raises:
        OSError: there is no such process.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _waited_seconds(proc: Path) -> float | None:
    try:
        found = re.search(r"some .*total=(\d+)", (proc / "pressure/cpu").read_text())
    except OSError:
        return None
    return int(found.group(1)) / 1e6 if found else None


def _busy_seconds(proc: Path, at: float) -> float:
    """The time in which all CPUs together were not idle, from a beginning that stays the same; NaN if unknown."""
    try:
        cpus = [line.split() for line in (proc / "stat").read_text().splitlines() if line.startswith("cpu")]
    except OSError:
        return math.nan
    idle = _TICK_SECONDS * (int(cpus[0][_IDLE]) + int(cpus[0][_IOWAIT]))  # the first line is of all of them
    return at * (len(cpus) - 1) - idle
