"""Samples of what a child's whole tree uses, and the reason to end it when that is too much.

Knows three limits: memory, processes with their threads, and bytes on disk. Counts what a candidate may hide, too:
forked processes, memory behind descriptors, deleted files that are still open. A sample can be outrun for a tenth of a
second; where control groups work they hold in between. Does not know how a tree is ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate import processes

_PERIOD_SECONDS = 0.1
_DISK_EVERY = 5
THREADS_PER_PROCESS = 8
"""How many threads are allowed for each allowed process, all together."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tree may use at once; 0 for no limit.

    Attributes:
        memory_bytes: memory that no file backs, shared pages counted once.
        processes: processes; threads may be `THREADS_PER_PROCESS` times as many.
        disk_bytes: in the child's own folders, `/tmp` and `/dev/shm` included where the level has its own.
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
        """Args: the tree's processes, folders on disk, limits, and folders that lie in memory, as seen from here."""
        self._pids, self._folders, self._limits, self._in_memory = pids, folders, limits, in_memory
        self._last = 0.0
        self._samples = 0
        self._unmapped = 0

    def breach(self) -> str:
        """Which limit the tree is over, in words; empty if none, or if the last look was just now."""
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
        if not most or sum(processes.resident_bytes(pid) for pid in pids) + self._unmapped <= most:
            return ""
        parts = [processes.exact_bytes(pid) for pid in pids]
        used = sum(private for private, _ in parts) + max(sum(shared for _, shared in parts), self._unmapped)
        return f"the candidate used {_gib(used)} of memory, more than {_gib(most)}" if used > most else ""

    def _too_much_written(self, pids: set[int]) -> str:
        unnamed = {key: found for pid in pids for key, found in processes.unnamed_files(pid).items()}
        deleted = sum(size for in_memory, size in unnamed.values() if not in_memory)
        most = self._limits.disk_bytes
        try:
            self._unmapped = sum(size for in_memory, size in unnamed.values() if in_memory)
            self._unmapped += sum(bytes_below(folder, one_device=True) for folder in self._in_memory())
            written = deleted + sum(bytes_below(folder) for folder in self._folders) if most else 0
        except TooDeep:
            return "the candidate made folders in folders, too deep to be counted"
        return f"the candidate wrote {_gib(written)}, more than {_gib(most)}" if written > most else ""


class TooDeep(Exception):
    """A path below a folder is longer than the kernel takes."""


def bytes_below(folder: Path, one_device: bool = False) -> int:
    """What all files below a folder take.

    Args:
        folder: where to look.
        one_device: leave out what is mounted below it.

    Raises:
        TooDeep: some of it is out of reach.
    """
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            for entry in os.scandir(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if not one_device or not os.path.ismount(entry.path) else []
                else:
                    total += _disk_bytes(entry)
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
