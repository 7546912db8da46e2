"""What the kernel says about processes: their descendants, their use of the machine, their filters.

Reads `/proc` from outside: nothing depends on what a process says about itself.
"""

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _FLAGS, _THREADS, _STARTED = 1, 6, 17, 19
_EXITING = 4
"""The kernel's flag of a thread that is on its way out (PF_EXITING)."""


@dataclass(frozen=True, slots=True)
class HeldThread:
    """How one thread is held.

    Attributes:
        alive: neither a zombie nor gone.
        filters: system call filters that hold it; 1 for any if the kernel does not count them, and
            -1 if it says nothing.
        numbers: its process id in each PID namespace, outermost first.
    """

    alive: bool
    filters: int
    numbers: tuple[int, ...]


def become_subreaper() -> None:
    """Adopt orphans of this process's children, so that `kill_strays` finds them."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def kill_strays(keep: set[int]) -> int:
    """Kill every child of this process that is not in `keep`, and return how many were killed."""
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
        return found if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _listed_children(pid)
    return found


def strays(known: set[int]) -> set[int]:
    """Unknown children of this process in other sessions: adopted orphans, none that it started.

    A process can leave its session but not join another, so no orphan can hide in this one. Those
    that have ended are buried, for zombies would use up all process ids.
    """
    found = set()
    for child in children_of(os.getpid()) - known:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.getsid(child) != os.getsid(0) and not os.waitpid(child, os.WNOHANG)[0]:
                found.add(child)
    return found


def descendants_of(ancestor: int) -> set[int]:
    """All descendants of a process now, without orphans, which have another parent."""
    found: set[int] = set()
    frontier = {ancestor}
    while frontier:
        frontier = {child for pid in frontier for child in children_of(pid)} - found
        found |= frontier
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of a process with shared pages; cheap to read."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def exact_bytes(pid: int) -> tuple[int, int]:
    """Private and shared memory without a file, shared pages split between users; slow."""
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
    """Open files without a name: (device, inode) to whether they lie in memory, and their bytes."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.endswith(" (deleted)"):
                    stat = os.stat(entry.path)
                    found[stat.st_dev, stat.st_ino] = (target.startswith("/memfd:"), stat.st_blocks * 512)
    return found


def held(pid: int, task: int | None = None) -> HeldThread:
    """How one thread of a process is held, by default its first."""
    fields = _status(pid, pid if task is None else task)
    if not fields:
        return HeldThread(False, -1, ())
    filters = int(fields.get("Seccomp_filters", 1 if fields.get("Seccomp") == "2" else 0))
    numbers = tuple(int(number) for number in fields.get("NSpid", str(pid)).split())
    return HeldThread(fields["State"][0] not in "ZX", filters if "Seccomp" in fields else -1, numbers)


def ends(pid: int, task: int) -> bool:
    """Whether a thread runs nothing of its own again: it exits, SIGKILL waits for it, or it is gone."""
    fields, flags = _status(pid, task), int(_stat(f"{pid}/task/{task}", _FLAGS))
    killed = int(fields.get("SigPnd", "0"), 16) >> (signal.SIGKILL - 1) & 1
    return not fields or bool(flags & _EXITING or killed) or fields["State"][0] in "ZX"


def first_beside(pid: int) -> int:
    """The first process of a process's PID namespace, which adopts orphans; 0 if unknown."""
    depth = len(held(pid).numbers)
    while (numbers := held(pid).numbers) and len(numbers) == depth:
        if numbers[-1] == 1:
            return pid
        pid = int(_stat(pid, _PARENT))
    return 0


def started(pid: int) -> str:
    """When a process started, by the kernel's clock; empty if it is gone."""
    text = _stat(pid, _STARTED)
    return text if text != "0" and held(pid).alive else ""


def tasks_of(pid: int) -> list[int]:
    """The thread ids of a process."""
    with contextlib.suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _listed_children(pid: int) -> set[int]:
    """The same by reading every process of the machine, for kernels that do not list children."""
    everyone = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return {other for other in everyone if int(_stat(other, _PARENT)) == pid}


def _status(pid: int, task: int) -> dict[str, str]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{task}/status").read_text()
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {}


def _stat(pid: int | str, field: int) -> str:
    """A field of a process's `stat`, counted after its name; "0" if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field]
    return "0"
