"""What a child holds and runs, by the kernel's account: memory and machine code of its own.

Reads `/proc` from outside. Does not know what the figures are for.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

_MOST_FILES = 20_000
_RESET_PEAK = "5"
_DELETED = " (deleted)"
_LEAST_GROWTH_BYTES = 4096


def forget_peak(pids: Iterable[int]) -> None:
    """Let `peak_bytes` count from now on, if the kernel allows it."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def peak_bytes(pids: Iterable[int]) -> int:
    """The sum of the most memory that each process used; 0 if the kernel does not say."""
    return sum(_peak(pid) for pid in pids)


def grows(readings: Sequence[int]) -> bool:
    """Whether memory grew by a page or more in all calls but at most one."""
    steps = [after - before for before, after in pairwise(readings)]
    rising = sum(step > 0 for step in steps)
    enough = sum(steps) >= _LEAST_GROWTH_BYTES * len(steps)
    return len(steps) >= 3 and rising >= max(3, len(steps) - 1) and enough


def has_own_code(pids: Iterable[int], folder: Path) -> bool:
    """Whether a process runs machine code from a file in `folder`, or from a deleted file.

    Code without a file (of a just-in-time compiler) does not count: torch's libraries make such
    code too.
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
    """Inode and name of at most 20,000 files under a folder.

    The device is left out: on layered file systems `stat` and `maps` differ in it.
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
