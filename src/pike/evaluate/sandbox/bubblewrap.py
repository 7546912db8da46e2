"""A level made with bubblewrap: own PID, network, IPC and mount namespaces, and a file system of what is needed.

Knows the command line of `bwrap`. Does not know limits on memory or time; the launcher and the judge hold those.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import tempfile

from pike.evaluate.sandbox.level import Cell, Claim
from pike.evaluate.sandbox.view import Show, sights

_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


class Bubblewrap:
    """`bwrap` with namespaces; works as root and, where the kernel allows it, as a user."""

    name = "bubblewrap"
    seen_with_cuda = True
    claims = frozenset(Claim)
    filters = True
    inherits = True

    def obstacle(self) -> str:
        """Why it does not work here: not installed, or namespaces are refused."""
        return _obstacle()

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`bwrap ... argv`."""
        wrapped = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        if os.geteuid() == 0:
            # Otherwise what root starts keeps its capabilities, and user 0 may set the kernel's switches without any.
            kernel = [flag for part in _SWITCHES for flag in ("--ro-bind-try", part, part)]
            wrapped += ["--cap-drop", "ALL"]
        else:
            kernel = []
        # Folders in its own folder stand for /tmp and /dev/shm: what is written there is counted and removed.
        wrapped += ["--dev", "/dev", "--bind", f"{cell.workdir}/caches/shm", "/dev/shm", "--proc", "/proc", *kernel]
        wrapped += ["--bind", f"{cell.workdir}/caches/tmp", "/tmp", *_shown(cell)]
        for path in glob.glob("/dev/nvidia*") if cell.cuda else ():
            wrapped += ["--dev-bind", path, path]
        wrapped += ["--bind", cell.workdir, cell.workdir, "--chdir", cell.workdir]
        if cell.kept_caches:
            wrapped += ["--bind", cell.kept_caches, cell.kept_caches]
        wrapped += ["--remount-ro", "/dev", "--remount-ro", "/"]
        if cell.filter_fd is not None:
            wrapped += ["--seccomp", str(cell.filter_fd)]
        return [*wrapped, "--", *argv]

    def end(self, cell: Cell) -> None:
        """Nothing is left."""


def _shown(cell: Cell) -> list[str]:
    flags: list[str] = []
    emptied = []
    for sight in sights(cell):
        if sight.show is Show.LINK:
            flags += ["--symlink", os.readlink(sight.path), sight.path]
        elif sight.show is Show.READ:
            flags += ["--ro-bind", sight.path, sight.path]
        elif sight.show is Show.EMPTY:
            flags += ["--tmpfs", sight.path]
            emptied += ["--remount-ro", sight.path]
        else:
            flags += ["--ro-bind", "/dev/null", sight.path]
    return [*flags, *emptied]


@functools.cache
def _obstacle() -> str:
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed (the package is called bubblewrap)"
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        for part in ("tmp", "shm"):
            os.makedirs(os.path.join(folder, "caches", part))
        command = Bubblewrap().command(Cell(folder, (), False), ["true"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bwrap fails: {done.stderr.strip()[-200:]}"
