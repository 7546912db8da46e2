"""What judges leave: temporary folders and groups, and how those of dead judges are removed.

Run as a program, it ends a judge whose client is gone. Does not know what the folders hold.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pike.judge.process import cgroup
from pike.judge.processes import kill_strays
from pike.judge.sandbox import discard

ENDING = (sys.executable, "-m", "pike.judge.process.leftovers")
"""Runs in a judge's place under its process id, so that no thread of the judge makes more files."""


def folder_prefix() -> str:
    """The prefix of this process's temporary folders, by which `sweep` knows their owner."""
    return f"pike-{os.getpid()}-"


def sweep(ending: int = 0) -> None:
    """Remove folders, containers and control groups of dead judges and of the `ending` one."""
    for path in Path(tempfile.gettempdir()).glob("pike-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and (int(owner) == ending or not Path(f"/proc/{owner}").exists()):
            discard(path)
            remove(path)
    cgroup.sweep(ending)


def remove(path: Path) -> None:
    """Delete what a candidate made, however deep and with any permissions."""
    try:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], capture_output=True, check=False)


def main() -> None:
    """Clean up after the judge that was here, and exit with code 1 because it gave no answer."""
    kill_strays(set())
    sweep(os.getpid())
    sys.exit(1)


if __name__ == "__main__":
    main()
