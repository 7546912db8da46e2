"""What the kernel says about processes: who descends from whom, what they use, which filters hold them.

Knows `/proc`. Everything is read from outside, so nothing depends on what a process says about itself. Does not know
why anybody asks.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _THREADS, _STARTED = 1, 17, 19


@dataclass(frozen=True, slots=True)
class Held:
    """How one thread is held.

    Attributes:
        alive: neither a zombie nor gone.
        filters: system call filters that hold it; where the kernel does not count, 1 if there are any and -1 unknown.
        numbers: its process id in each PID namespace, outermost first.
    """

    alive: bool
    filters: int
    numbers: tuple[int, ...]


def become_subreaper() -> None:
    """Make orphans of our children ours, so that `kill_strays` finds them; for a process that owns its children."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def kill_strays(keep: set[int]) -> int:
    """Kill every child of this process that is not in `keep` (orphans of a candidate that left its group).

    Returns:
        How many were killed.
    """
    killed = 0
    deadline = time.monotonic() + 5.0
    while (strays := children_of(os.getpid()) - keep) and time.monotonic() < deadline:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            killed += 1
    return killed


def children_of(pid: int) -> set[int]:
    """The children of all threads of a process."""
    found: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found |= {int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()}
    except OSError:
        return found if _knows_children() else _listed_children(pid)
    return found


def strays_of(pid: int) -> set[int]:
    """Its children outside of its own session: orphans of other sessions, and never what its own libraries start.

    A session can be left and not be joined, so nothing that began in another one hides here.
    """
    found = set()
    for child in children_of(pid):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(child) != os.getsid(pid):
                found.add(child)
    return found


def descendants_of(ancestor: int) -> set[int]:
    """All that descend from a process as the kernel sees it now; orphans are elsewhere."""
    found: set[int] = set()
    frontier = {ancestor}
    while frontier:
        frontier = {child for pid in frontier for child in children_of(pid)} - found
        found |= frontier
    return found


def resident_bytes(pid: int) -> int:
    """Memory that a process touches, shared pages included; cheap."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def exact_bytes(pid: int) -> tuple[int, int]:
    """Private and shared memory that files do not back, each shared page split between those who share it; slow."""
    private = shared = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                private = int(line.split()[1]) << 10
            elif line.startswith("Pss_Shmem:"):
                shared = int(line.split()[1]) << 10
    return private, shared


def threads_of(pid: int) -> int:
    """How many threads a process has, 0 if it is gone."""
    return int(_stat(pid, _THREADS))


def unnamed_files(pid: int) -> dict[tuple[int, int], tuple[bool, int]]:
    """Open files that no folder lists: (device, inode) to whether they lie in memory, and their bytes."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.endswith(" (deleted)"):
                    stat = os.stat(entry.path)
                    found[stat.st_dev, stat.st_ino] = (target.startswith("/memfd:"), stat.st_blocks * 512)
    return found


def held(pid: int, task: int | None = None) -> Held:
    """How one thread of a process is held, by default its first."""
    try:
        text = Path(f"/proc/{pid}/task/{pid if task is None else task}/status").read_text()
    except OSError:
        return Held(False, -1, ())
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    filters = int(fields.get("Seccomp_filters", 1 if fields.get("Seccomp") == "2" else 0))
    numbers = tuple(int(number) for number in fields.get("NSpid", str(pid)).split())
    return Held(fields["State"][0] not in "ZX", filters if "Seccomp" in fields else -1, numbers)


def first_beside(pid: int) -> int:
    """The first process of the PID namespace that a process is in, which its orphans fall to; 0 if out of sight."""
    depth = len(held(pid).numbers)
    while (numbers := held(pid).numbers) and len(numbers) == depth:
        if numbers[-1] == 1:
            return pid
        pid = int(_stat(pid, _PARENT))
    return 0


def started(pid: int) -> str:
    """When a process started, by the kernel's clock: with the number, who it is; empty if it is gone."""
    text = _stat(pid, _STARTED)
    return text if text != "0" and held(pid).alive else ""


def tasks_of(pid: int) -> list[int]:
    """The thread ids of a process."""
    with contextlib.suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _knows_children() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _listed_children(pid: int) -> set[int]:
    """The same by looking at every process of the machine, for kernels that do not list children."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(_stat(int(entry), _PARENT)) == pid:
            found.add(int(entry))
    return found


def _stat(pid: int, field: int) -> str:
    """A field of a process's `stat`, counted from behind its name; "0" if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field]
    return "0"
