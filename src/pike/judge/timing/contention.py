"""Whether other programs held the CPU while something was measured.

Knows four numbers of Linux. None suffices alone: threads of one model wait for each other, and
other programs may run on CPUs that nothing else needs. Does not know what is measured.
"""

import contextlib
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_SECONDS = 1.0 / os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _STOLEN = 4, 5, 8
_STRETCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Contention:
    """How much the CPUs were wanted.

    Attributes:
        waited: share of the time in which any thread of the machine waited for a CPU.
        others: CPU seconds of other programs for each second; infinite if unknown.
        stolen: share of the wanted CPU time, of one CPU at least, that the host gave to others.
        ours: seconds for each second that timed threads waited, all together; infinite if unknown.
    """

    waited: float
    others: float
    stolen: float = 0.0
    ours: float = math.inf

    @property
    def share(self) -> float:
        """The share of the time, 0 to 1, in which other programs kept the timed ones waiting."""
        return min(1.0, min(self.waited, self.others, self.ours) + self.stolen)

    @property
    def delayed(self) -> float:
        """The share of the time, 0 to 1, in which any thread waited."""
        return min(1.0, self.waited + self.stolen)


@dataclass(frozen=True, slots=True)
class _Look:
    """Seconds until now.

    Attributes:
        at: on the clock.
        waited: in which any thread waited; None if unknown.
        wanted: CPU time that the machine wanted; NaN if unknown.
        stolen: the part of it that the host took; NaN if unknown.
        ours: CPU time of this program.
        threads: how long each timed thread waited; empty if unknown.
    """

    at: float
    waited: float | None
    wanted: float
    stolen: float
    ours: float
    threads: Mapping[str, float]


class ContentionMeter:
    """Measures how much other programs hold the CPU.

    Args:
        ours: the processes of this program.
        timed: those whose waiting matters; if none, any waiting on the machine does.
        proc: the kernel's process file system.
        clock: seconds.
    """

    def __init__(
        self,
        ours: Iterable[int] = (),
        timed: Iterable[int] = (),
        proc: Path = _PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ours, self._timed, self._proc, self._clock = dict.fromkeys(ours, 0.0), tuple(timed), proc, clock
        self._looks = deque([self._look()])

    def read(self) -> Contention:
        """The waiting since the last call, and the CPU time of others in the last half second.

        The kernel counts the latter in ticks, so that it needs more than a moment; what may be
        rounding is left out.
        """
        before, now = self._looks[-1], self._look()
        self._looks.append(now)
        while now.at - self._looks[1].at >= _STRETCH_SECONDS:
            self._looks.popleft()
        first = self._looks[0]
        if now.at <= before.at:
            return Contention(0.0, math.inf)
        waited = 0.0
        if before.waited is not None and now.waited is not None:
            waited = min(1.0, (now.waited - before.waited) / (now.at - before.at))
        held_up = (now.threads[name] - was for name, was in before.threads.items() if name in now.threads)
        ours = sum(held_up) / (now.at - before.at) if before.threads and now.threads else math.inf
        seconds, wanted, stolen = now.at - first.at, now.wanted - first.wanted, now.stolen - first.stolen
        if math.isnan(wanted):
            return Contention(waited, math.inf, ours=ours)
        others = wanted - stolen - (now.ours - first.ours)
        return Contention(
            waited,
            max(0.0, others - 2 * _TICK_SECONDS) / seconds,
            min(1.0, max(0.0, stolen - _TICK_SECONDS) / max(wanted, seconds)),
            ours,
        )

    def _look(self) -> _Look:
        for pid in self._ours:
            with contextlib.suppress(OSError):  # it ended: the last look counts
                self._ours[pid] = cpu_seconds(pid)
        at = self._clock()
        wanted, stolen = _wanted_and_stolen_seconds(self._proc, at)
        threads = _threads_waited_seconds(self._proc, self._timed)
        return _Look(at, _waited_seconds(self._proc), wanted, stolen, sum(self._ours.values()), threads)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process with all its threads (`man clock_getcpuclockid`).

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


def _threads_waited_seconds(proc: Path, pids: Iterable[int]) -> dict[str, float]:
    """How long each thread of some processes waited for a CPU (`schedstat`).

    A kernel that does not count says that no thread ran; such threads are left out.
    """
    found = {}
    for pid in pids:
        for thread in (proc / str(pid) / "task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):  # it ended
                ran, waited, *_ = map(int, thread.read_text().split())
                if ran:
                    found[thread.parent.name] = waited / 1e9
    return found


def _wanted_and_stolen_seconds(proc: Path, at: float) -> tuple[float, float]:
    """The time in which CPUs were not idle, and what the host took of it, since a fixed moment.

    NaN if unknown.
    """
    try:
        cpus = [line.split() for line in (proc / "stat").read_text().splitlines() if line.startswith("cpu")]
        idle, iowait, stolen = (int(cpus[0][index]) * _TICK_SECONDS for index in (_IDLE, _IOWAIT, _STOLEN))
    except (OSError, IndexError, ValueError):  # some containers show another table, or none
        return math.nan, math.nan
    return at * (len(cpus) - 1) - idle - iowait, stolen  # the first line is of all of them
