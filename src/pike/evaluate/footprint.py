"""What a child holds and runs, by the kernel's account: resident memory, its peak, and machine code of its own.

Knows `/proc`, read from outside, so that nothing depends on what a process says about itself. Does not know why anybody
asks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from pike.evaluate import processes

_MOST_FILES = 20_000
_RESET_PEAK = "5"
_DELETED = " (deleted)"
_LEAST_GROWTH_BYTES = 4096


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory that these processes touch together, shared pages counted for each."""
    return sum(processes.resident_bytes(pid) for pid in pids)


def forget_peak(pids: Iterable[int]) -> None:
    """Let `peak_bytes` count from now on, where the kernel allows it."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def peak_bytes(pids: Iterable[int]) -> int:
    """The most memory that each of these processes touched, added up; 0 where the kernel does not tell."""
    return sum(_peak(pid) for pid in pids)


def grows(readings: Sequence[int]) -> bool:
    """Whether memory that was read after each call grew with all calls but at most one, by a page each or more."""
    steps = [after - before for before, after in pairwise(readings)]
    rising = sum(step > 0 for step in steps)
    enough = sum(steps) >= _LEAST_GROWTH_BYTES * len(steps)
    return len(steps) >= 3 and rising >= max(3, len(steps) - 1) and enough


def has_own_code(pids: Iterable[int], folder: Path) -> bool:
    """Whether a process runs machine code from a file that lies in `folder`, or that no folder lists any more.

    Code without a file (a just-in-time compiler's) does not count: torch's own libraries make such code too.
    """
    own = _files_in(folder)
    return any(is_deleted or place in own for pid in pids for place, is_deleted in _executable_files(pid))


def _peak(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def _files_in(folder: Path) -> set[tuple[int, str]]:
    """Inode and name of the files under a folder, as far as there are not absurdly many.

    Not the device: layered file systems give `stat` and `maps` different ones.
    """
    found: set[tuple[int, str]] = set()
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found.add((os.lstat(os.path.join(place, name)).st_ino, name))
            if len(found) >= _MOST_FILES:
                return found
    return found


def _executable_files(pid: int) -> Iterable[tuple[tuple[int, str], bool]]:
    """Inode and name of each file that is mapped as code, and whether it was deleted."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            _, rights, _, _, inode, *path = line.split(maxsplit=5)
            if "x" in rights and int(inode) and path:
                yield (int(inode), path[0].rpartition("/")[2]), path[0].endswith(_DELETED)
