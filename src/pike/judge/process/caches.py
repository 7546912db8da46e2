"""Compilers' caches, kept for the same candidate on the same task only.

All children see one folder at the same path, because compilers write absolute paths. Kept caches
are given back only if they are unchanged, by the kernel's change times.
"""

import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pike.judge.process.environment import KEPT_CACHES
from pike.judge.process.leftovers import folder_prefix, remove
from pike.judge.process.watch import bytes_below

_MOST_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class _Kept:
    """One candidate's caches: their size, and a seal that shows later changes."""

    nbytes: int
    seal: bytes


class Caches:
    """The kept caches of one judge, bounded in bytes; the least recently used are dropped first."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lent = self._refused = ""
        self._found = False
        self.place = self._folder / "now"
        """Where children find the current candidate's caches."""
        self._clear()

    def lend(self, *identity: object) -> bool:
        """Put a candidate's caches into place, or empty ones; returns whether there were any.

        What is lent stays kept, so that a candidate that fails costs those nothing that share its
        caches. It finds none when it is tried again at once.

        Args:
            identity: everything that tells its caches from others' (source, task, device,
                versions). Without an identity they are not kept.
        """
        self._clear()
        self._lent = hashlib.sha256(repr(identity).encode()).hexdigest() if identity else ""
        kept = self._kept.get(self._lent)
        refused, self._refused, self._found = self._refused, "", False
        if kept is None or self._lent == refused:
            return False
        stored = self._folder / self._lent
        whole = seal(stored) == kept.seal
        if whole:
            self._kept.move_to_end(self._lent)
            shutil.copytree(stored, self.place, symlinks=True, dirs_exist_ok=True)
        else:
            self._drop(self._lent)
        self._found = whole
        return whole

    def take_back(self, keep: bool) -> None:
        """Empty the place after its candidate is dead.

        Args:
            keep: whether its caches are whole: a killed compiler leaves locks and halves of files.
        """
        parts = [self.place / part for part in KEPT_CACHES]
        whole = self._lent and keep and not any(part.is_symlink() for part in parts)
        nbytes = sum(bytes_below(part) for part in parts) if whole else 0
        if nbytes and nbytes <= self._most_bytes:
            stored = self._folder / self._lent
            self._drop(self._lent)
            try:
                stored.mkdir()
                for part in parts:
                    part.rename(stored / part.name)
                self._kept[self._lent] = _Kept(nbytes, seal(stored))
            except OSError:
                remove(stored)
            while sum(kept.nbytes for kept in self._kept.values()) > self._most_bytes:
                self._drop(next(iter(self._kept)))
        self._refused = self._lent if self._found and not keep else ""
        self._lent = ""
        self._clear()

    def close(self) -> None:
        """Remove all of it."""
        remove(self._folder)

    def _drop(self, name: str) -> None:
        self._kept.pop(name, None)
        remove(self._folder / name)

    def _clear(self) -> None:
        """Empty the folder but keep it: a sandbox's mount is bound to it and not to its name."""
        self.place.mkdir(exist_ok=True)
        for entry in os.listdir(self.place):
            remove(self.place / entry)
        for part in KEPT_CACHES:
            (self.place / part).mkdir()


def seal(folder: Path) -> bytes:
    """A digest of all names below a folder, with sizes and the kernel's change times."""
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
