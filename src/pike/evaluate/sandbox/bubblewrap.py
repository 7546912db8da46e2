"""A level made with bubblewrap: own PID, network, IPC and mount namespaces, a read-only system, a private /tmp.

Knows the command line of `bwrap`. Does not know limits on memory or time; the launcher and the judge hold those.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import tempfile

from pike.evaluate.sandbox.level import Cell

_SECRET_PLACES = (".ssh", ".aws", ".gnupg", ".config", ".netrc", ".docker", ".kube", ".huggingface", ".cache")


class Bubblewrap:
    """`bwrap` with namespaces; works as root and, where the kernel allows it, as a user."""

    name = "bubblewrap"
    not_enforced = "memory below the resource limits, number of processes, system calls"

    def obstacle(self) -> str:
        """Why it does not work here: not installed, or namespaces are refused."""
        return _obstacle()

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`bwrap ... argv`."""
        wrapped = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        wrapped += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        wrapped += _hidden()
        if cell.cuda:
            for path in glob.glob("/dev/nvidia*"):
                wrapped += ["--dev-bind", path, path]
        for path in cell.readable:
            if os.path.exists(path):
                wrapped += ["--ro-bind", path, path]
        return [*wrapped, "--bind", cell.workdir, cell.workdir, "--chdir", cell.workdir, "--", *argv]


def _hidden() -> list[str]:
    flags = []
    for place in _SECRET_PLACES:
        path = os.path.join(os.path.expanduser("~"), place)
        if os.path.isdir(path):
            flags += ["--tmpfs", path]
        elif os.path.exists(path):
            flags += ["--ro-bind", "/dev/null", path]
    return flags


@functools.cache
def _obstacle() -> str:
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed (the package is called bubblewrap)"
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        command = Bubblewrap().command(Cell(folder, (), False), ["true"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bwrap fails: {done.stderr.strip()[-200:]}"
