"""Samples of what a child's whole tree uses, and the reason to end it if that is too much.

Also counts what a candidate may hide: forked processes, memory behind descriptors, deleted files
that are still open. Control groups hold between two samples, a tenth of a second apart.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pike.judge import processes

_PERIOD_SECONDS = 0.1
_DISK_EVERY = 5
THREADS_PER_PROCESS = 8
"""How many threads are allowed for each allowed process, all together."""
_INODE_BYTES = 16 << 10
"""What a file takes at least: empty ones use up a file system too, which has one for so many bytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a tree may use at once; 0 for no limit.

    Attributes:
        memory_bytes: memory that no file backs, shared pages counted once.
        processes: processes; threads may be `THREADS_PER_PROCESS` times as many.
        disk_bytes: in the child's own folders, with the level's own `/tmp` and `/dev/shm`.
    """

    memory_bytes: int
    processes: int
    disk_bytes: int


class Watch:
    """Looks at one tree when asked, at most ten times a second."""

    def __init__(
        self,
        pids: Callable[[], set[int]],
        folders: tuple[Path, ...],
        limits: Limits,
        in_memory: Callable[[], tuple[Path, ...]] = tuple,
    ) -> None:
        """A watch over the tree of `pids`, its folders on disk, and its folders in memory."""
        self._pids, self._folders, self._limits, self._in_memory = pids, folders, limits, in_memory
        self._last = 0.0
        self._samples = 0
        self.unmapped_bytes = 0

    def breach(self) -> str:
        """The limit that the tree exceeds, in words; empty if none or if just looked at."""
        if time.monotonic() - self._last < _PERIOD_SECONDS:
            return ""
        pids = self._pids()
        reason = self._too_many(pids) or self._too_large(pids)
        if not reason and self._samples % _DISK_EVERY == 0:
            reason = self._too_much_written(pids)
        self._samples += 1
        self._last = time.monotonic()
        return reason

    def _too_many(self, pids: set[int]) -> str:
        most = self._limits.processes
        if most and len(pids) > most:
            return f"the candidate ran {len(pids)} processes at once, more than {most}"
        threads = sum(processes.threads_of(pid) for pid in pids)
        if most and threads > most * THREADS_PER_PROCESS:
            return f"the candidate ran {threads} threads at once, more than {most * THREADS_PER_PROCESS}"
        return ""

    def _too_large(self, pids: set[int]) -> str:
        most = self._limits.memory_bytes
        if not most or sum(processes.resident_bytes(pid) for pid in pids) + self.unmapped_bytes <= most:
            return ""
        parts = [processes.exact_bytes(pid) for pid in pids]
        used = sum(private for private, _ in parts) + max(sum(shared for _, shared in parts), self.unmapped_bytes)
        return f"the candidate used {_gib(used)} of memory, more than {_gib(most)}" if used > most else ""

    def _too_much_written(self, pids: set[int]) -> str:
        unnamed = {key: found for pid in pids for key, found in processes.unnamed_files(pid).items()}
        deleted = sum(size for in_memory, size in unnamed.values() if not in_memory)
        most = self._limits.disk_bytes
        try:
            self.unmapped_bytes = sum(size for in_memory, size in unnamed.values() if in_memory)
            self.unmapped_bytes += sum(bytes_below(folder, one_device=True) for folder in self._in_memory())
            written = deleted + sum(bytes_below(folder) for folder in self._folders) if most else 0
        except TooDeep:
            return "the candidate made folders in folders, too deep to be counted"
        return f"the candidate wrote {_gib(written)}, more than {_gib(most)}" if written > most else ""


class TooDeep(Exception):
    """A path below a folder is longer than the kernel takes."""


def bytes_below(folder: Path, one_device: bool = False) -> int:
    """The bytes of all entries below a folder; `one_device` leaves out what is mounted there.

    Raises:
        TooDeep: a path is too long for the kernel.
    """
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            for entry in os.scandir(waiting.pop()):
                total += max(_disk_bytes(entry), _INODE_BYTES)
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if not one_device or not os.path.ismount(entry.path) else []
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise TooDeep from error
    return total


def _disk_bytes(entry: os.DirEntry[str]) -> int:
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False).st_blocks * 512
    return 0


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB"
