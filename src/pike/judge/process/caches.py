"""Compilers' caches, kept for the same candidate on the same task only.

The judges that one process starts keep them together. A child finds them in its judge's own folder,
at the same path as any child before, because compilers write absolute paths. Kept caches are given
back only if they are unchanged, by the kernel's change times.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pike.judge.process.environment import KEPT_CACHES
from pike.judge.process.leftovers import folder_prefix, remove
from pike.judge.process.watch import TooDeep, bytes_below

_MOST_BYTES = 2 << 30
_NAMED_BY_CONTENT = ("inductor", "triton")
"""Caches in which a name stands for one content, so that those of two judges can be put together."""
_TRIES = 3
"""How often caches are looked for that another judge replaces meanwhile."""
_LIST, _LIST_BYTES = "__grp__", 1 << 20
"""How the names of Triton's lists of files begin, and the most bytes of one."""
_PLACE = re.compile(rb'"[^"]*/pike-[0-9]+-[^/"]+/now/')


class Caches:
    """The kept caches of a judge, bounded in bytes; the least recently used are dropped first."""

    def __init__(self, most_bytes: int = _MOST_BYTES, folder: str = "", key: str = "") -> None:
        """Caches for this judge alone, or those in a folder that judges share.

        Args:
            most_bytes: of all that is kept.
            folder: the shared folder; empty for one of its own.
            key: what a seal is made with; known to the judges of that folder and to who starts them.
        """
        self._most_bytes = most_bytes
        self._own = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._kept, self._key = Path(folder or self._own / "kept"), (key or secrets.token_hex()).encode()
        self._lent, self._by, self._refused = "", "", ("", "")
        self._found = self._again = False
        self._copied: Path | None = None
        self.place = self._own / "now"
        """Where children find the current candidate's caches."""
        if not folder:
            self._kept.mkdir()
        self._clear()

    def lend(self, *identity: object, by: str = "") -> bool:
        """Put a candidate's caches into place, or empty ones; returns whether there were any.

        What is lent stays kept, so that a candidate that fails costs those nothing that share its
        caches. It finds none when it is tried again at once.

        Args:
            identity: everything that tells its caches from others' (source, task, device,
                versions). Without an identity they are not kept.
            by: tells the candidate from those that share its caches.
        """
        self._clear()
        self._lent = hashlib.sha256(repr(identity).encode()).hexdigest() if identity else ""
        self._again, self._by = bool(self._lent) and (self._lent, by) == self._refused, by
        self._refused, self._copied = ("", ""), None
        self._found = bool(self._lent) and not self._again and any(self._put_in_place() for _ in range(_TRIES))
        return self._found

    def take_back(self, keep: bool) -> None:
        """Empty the place after its candidate is dead.

        Args:
            keep: whether its caches are whole: a killed compiler leaves locks and halves of files.
        """
        if self._lent and keep:
            with contextlib.suppress(OSError, RecursionError, TooDeep):  # costs the caches, never a verdict
                self._keep()
        self._refused = (self._lent, self._by) if self._found and not keep else ("", "")
        self._lent = ""
        self._clear()

    def close(self) -> None:
        """Remove the place, and what this judge kept alone."""
        remove(self._own)

    def _put_in_place(self) -> bool:
        """Whether the newest caches of the current candidate lie in place now; what cannot be copied goes."""
        for folder in reversed(self._versions(self._lent)):
            if self._copy(folder, self.place):
                self._copied = folder
                _readdress(self.place)
                with contextlib.suppress(OSError):
                    os.utime(folder)
                return True
            self._clear()
        return False

    def _copy(self, folder: Path, to: Path) -> bool:
        """Whether all of some kept caches, unchanged, lie in a folder now; the kept ones go if not."""
        with contextlib.suppress(OSError, RecursionError):
            if self._is_whole(folder):
                shutil.copytree(folder, to, symlinks=True, dirs_exist_ok=True)
                if self._is_whole(folder):  # still, so that nobody removed it or wrote to it meanwhile
                    return True
        if folder.exists():
            remove(folder)
        return False

    def _keep(self) -> None:
        """Keep what lies in place, with what another judge has kept for the same candidate meanwhile."""
        parts = [self.place / part for part in KEPT_CACHES]
        if any(part.is_symlink() for part in parts):
            return
        work, old = Path(tempfile.mkdtemp(dir=self._own)), self._versions(self._lent)
        try:
            new = work / "new"
            new.mkdir()
            for part in parts:
                part.rename(new / part.name)
            for folder in [] if self._again else old:
                if folder != self._copied and self._copy(folder, work / folder.name):
                    for name in _NAMED_BY_CONTENT:
                        _add(work / folder.name / name, new / name)
            nbytes = sum(max(bytes_below(new / name), _length(new / name)) for name in KEPT_CACHES)
            if 0 < nbytes <= self._most_bytes:
                terms = f"{self._lent}.{nbytes}"
                new.rename(self._kept / f"{terms}.{seal(new, self._key, terms)}")
                for folder in filter(Path.exists, old):
                    remove(folder)
        finally:
            remove(work)
        kept = self._versions()
        while sum(int(folder.name.split(".")[1]) for folder in kept) > self._most_bytes:
            remove(kept.pop(0))

    def _versions(self, name: str = "*") -> list[Path]:
        """Kept caches, the least recently used first: folders that are called name, bytes and seal."""
        found = []
        for path in self._kept.glob(f"{name}.*.*"):
            with contextlib.suppress(OSError):  # another judge removes it
                found += [(path.lstat().st_mtime_ns, path)] if re.fullmatch(r"\w+\.\d+\.\w+", path.name) else []
        return [path for _, path in sorted(found)]

    def _is_whole(self, folder: Path) -> bool:
        """Whether a judge kept this under this name, and nobody has changed it."""
        terms, _, sealed = folder.name.rpartition(".")
        with contextlib.suppress(OSError):
            return not folder.is_symlink() and sealed == seal(folder, self._key, terms)
        return False

    def _clear(self) -> None:
        """Empty the folder but keep it: a sandbox's mount is bound to it and not to its name."""
        self.place.mkdir(exist_ok=True)
        self.place.chmod(0o700)  # a candidate may have changed it
        for entry in os.listdir(self.place):
            remove(self.place / entry)
        for part in KEPT_CACHES:
            (self.place / part).mkdir()


def seal(folder: Path, key: bytes = b"", terms: str = "") -> str:
    """A digest of all names below a folder, with sizes and the kernel's change times, and of what else is said of it.

    With a key it is a signature.
    """
    digest = hashlib.blake2b(terms.encode(), key=key, digest_size=32)
    for path, found in sorted(_entries(str(folder)), key=lambda one: one[0]):
        known = os.path.relpath(path, folder), found.st_ino, found.st_mode, found.st_size, found.st_ctime_ns
        digest.update(repr(known).encode())
    return digest.hexdigest()


def _add(source: Path, target: Path) -> None:
    """Move what is below `source` and not below `target`; follows no link."""
    waiting = [(str(source), str(target))]
    while waiting:
        old, new = waiting.pop()
        if not os.path.lexists(new):
            os.rename(old, new)
        elif all(stat.S_ISDIR(os.lstat(path).st_mode) for path in (old, new)):
            waiting += [(entry.path, os.path.join(new, entry.name)) for entry in os.scandir(old)]


def _readdress(place: Path) -> None:
    """Write this place into Triton's lists, which hold whole paths of the place where they were made."""
    for path, found in [*_entries(str(place))]:
        is_list = os.path.basename(path).startswith(_LIST) and stat.S_ISREG(found.st_mode)
        if is_list and found.st_size <= _LIST_BYTES:
            text = Path(path).read_bytes()
            Path(path).write_bytes(_PLACE.sub(lambda _: b'"' + os.fsencode(place) + b"/", text))


def _length(folder: Path) -> int:
    """The bytes of all files below a folder as a copy has them, where holes are filled.

    Raises:
        OSError: something cannot be copied: it is neither file, folder nor link.
    """
    total = 0
    for path, found in _entries(str(folder)):
        if stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise OSError(f"{path} is neither file, folder nor link")
        total += found.st_size
    return total


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [folder]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
