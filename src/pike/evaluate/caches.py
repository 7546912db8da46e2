"""What compilers left behind, kept for the same candidate on the same task and for nobody else.

Knows one place that a judge's children see at the same path, because compilers write absolute paths into their caches:
the judge puts a candidate's own caches there before it builds and takes them away after it is dead. What was kept is
only given back unchanged, by the kernel's change times. Does not know what compilers keep, nor who may write there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate.environment import KEPT_CACHES
from pike.evaluate.launch import folder_prefix, remove
from pike.evaluate.watch import bytes_below

_MOST_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class _Kept:
    """One candidate's caches: how much there is, and what they looked like when they were taken away."""

    nbytes: int
    seal: bytes


class Caches:
    """The kept caches of one judge, bounded in bytes; the least recently used go first."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lent = ""
        self.place = self._folder / "now"
        """Where children find the caches of the candidate that is judged."""
        self._clear()

    def lend(self, *identity: object) -> bool:
        """Put a candidate's own caches into place, or empty ones; returns whether there were any.

        Args:
            identity: everything that tells it from others (source, task, device, versions); none for a stranger, whose
                caches are not kept.
        """
        self._clear()
        self._lent = hashlib.sha256(repr(identity).encode()).hexdigest() if identity else ""
        kept = self._kept.pop(self._lent, None)
        if kept is None:
            return False
        stored = self._folder / self._lent
        whole = _seal(stored) == kept.seal
        if whole:
            for part in KEPT_CACHES:
                shutil.rmtree(self.place / part)
                os.rename(stored / part, self.place / part)
        remove(stored)
        return whole

    def take_back(self, keep: bool) -> None:
        """Empty the place after its candidate is dead.

        Args:
            keep: whether its caches are whole: a compiler that is killed leaves locks and halves of files.
        """
        nbytes = bytes_below(self.place) if self._lent and keep else 0
        if nbytes and nbytes <= self._most_bytes:
            stored = self._folder / self._lent
            stored.mkdir()
            for part in KEPT_CACHES:
                os.rename(self.place / part, stored / part)
            self._kept[self._lent] = _Kept(nbytes, _seal(stored))
            self._evict()
        self._lent = ""
        self._clear()

    def close(self) -> None:
        """Remove all of it."""
        remove(self._folder)

    def _evict(self) -> None:
        while sum(kept.nbytes for kept in self._kept.values()) > self._most_bytes:
            name, _ = self._kept.popitem(last=False)
            remove(self._folder / name)

    def _clear(self) -> None:
        """The folder itself stays: a level's mount is bound to it and not to its name."""
        self.place.mkdir(exist_ok=True)
        for entry in os.listdir(self.place):
            remove(self.place / entry)
        for part in KEPT_CACHES:
            (self.place / part).mkdir()


def _seal(folder: Path) -> bytes:
    """A digest of all names below a folder with their sizes and the kernel's change times, which nobody can set."""
    digest = hashlib.sha256()
    for path, stat in sorted(_entries(str(folder)), key=lambda found: found[0]):
        digest.update(repr((path, stat.st_ino, stat.st_mode, stat.st_size, stat.st_ctime_ns)).encode())
    return digest.digest()


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [folder]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
