"""What a command sees of this machine: no run beside its own, and its own run and task read-only.

Knows the namespaces of Linux through `unshare` and `setpriv` of util-linux. A command is the user's
own program, so nothing else is hidden from it, and where namespaces do not work, nothing is.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PREPARE = """
while [ "$1" != -- ]; do
    if [ "$1" = hide ]; then mount -t tmpfs -o ro,size=4k pike "$2" || exit 125
    else mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" || true; fi 2>/dev/null
    shift 2
done
cd "$PWD" && exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-sys_admin "$@"
"""
"""Mounts what the arguments before `--` say, then runs the rest without the right to undo it."""
_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True, slots=True)
class Confinement:
    """Keeps a command to one run.

    Attributes:
        folder: the run's folder.
        mark: a file of this name says that a folder is a run.
        read_only: further files that the command may not change: those of the task.
    """

    folder: Path
    mark: str
    read_only: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str]) -> tuple[str, ...]:
        """`argv` in namespaces of its own, which end with it; unchanged where there are none."""
        if not works():
            return tuple(argv)
        return (*_unshare(), "sh", "-c", _PREPARE, "sh", *self._mounts(), "--", *argv)

    def _mounts(self) -> Iterator[str]:
        own = self.folder.resolve()
        for other in sorted(own.parent.iterdir()):
            if other.resolve() != own and (other / self.mark).is_file():
                yield from ("hide", str(other.resolve()))
        for path in (str(own), *self.read_only):
            if os.path.exists(path):
                yield from ("keep", path)


@functools.cache
def works() -> bool:
    """Whether this machine lets us make such namespaces."""
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    command = (*_unshare(), "sh", "-c", _PREPARE, "sh", "--", "true")
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unshare() -> tuple[str, ...]:
    user = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
    return ("unshare", *user, *_NAMESPACES, "--")
