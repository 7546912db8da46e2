"""The engine apptainer, which high-performance clusters have: no daemon, no image here, and nothing that it remembers.

Knows what apptainer calls things, and the folders that its mounts need, because a place must exist before it is mounted
on. It has no limits of its own where there is no systemd, so none are asked for. Does not know what every engine does.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate.sandbox.engine import How, Mount, links, mounts, quoted
from pike.evaluate.sandbox.level import Cell

_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""User 0 may set the kernel's switches without any capability."""
_OPTIONS = ("--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--network", "none")
_NOT_MOUNTED = "sys,tmp,home,cwd,hostfs,bind-paths"
"""What the machine's settings would mount besides."""


@dataclass(frozen=True, slots=True)
class Apptainer:
    """`apptainer exec` on a folder of mount points, as root or, where the kernel allows it, as a user."""

    name: str = "apptainer"
    variants: tuple[tuple[str, ...], ...] = ((), ("--userns",))

    def prepare(self) -> str:
        """Nothing is made ahead."""
        return ""

    def run(self, variant: tuple[str, ...], cell: Cell, root: Path) -> list[str]:
        """The folder holds the root, what stands for hidden files, and what stands for empty folders."""
        inside, blank = root / "root", root / "blank"
        for folder in ("dev", "etc", "proc", "sys"):
            (inside / folder).mkdir(parents=True)
        blank.touch(mode=0)
        for path, target in links(cell).items():
            (inside / path.lstrip("/")).symlink_to(target)
        found = _sourced(cell, root)
        _make_places(found, inside)
        # Its own environment is emptied, too: variables in it add mounts, and its first process inside keeps them.
        clean = ("env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}", "apptainer", "--silent", "exec")
        mounted = [word for mount in found for word in _written(mount)]
        own = ("--no-mount", _NOT_MOUNTED, "--pwd", cell.workdir)
        return [*clean, *variant, *_OPTIONS, *own, *mounted, str(inside)]

    def farewell(self, name: str) -> tuple[str, ...]:
        """None: all of it descends from what was started."""
        return ()

    def names(self) -> list[str]:
        """It remembers none."""
        return []

    def remove(self, root: Path) -> None:
        """Nothing is left but the folder."""


def _sourced(cell: Cell, root: Path) -> list[Mount]:
    """All mounts, outermost first, each with a file or folder that is there."""
    found = [*mounts(cell), *(Mount(path, How.READ, path) for path in _SWITCHES if os.path.exists(path))]
    if cell.cuda:
        found += [Mount(path, How.WRITE, path) for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path)]
    made = []
    for number, mount in enumerate(sorted(found, key=lambda mount: len(Path(mount.place).parts))):
        source = mount.source
        if mount.how is How.BLANK:
            source = str(root / "blank")
        elif mount.how is How.EMPTY:
            source = str(root / f"empty{number}")
            os.mkdir(source)
        made.append(Mount(mount.place, mount.how, source))
    return made


def _make_places(found: list[Mount], inside: Path) -> None:
    """Where a mount lies in another one, its place is made in what is mounted there, unless that is the system's."""
    for mount in found:
        around = [other for other in found if other is not mount and mount.place.startswith(other.place + "/")]
        outer = around[-1] if around else Mount("", How.EMPTY, str(inside))
        place = Path(outer.source + mount.place.removeprefix(outer.place))
        if outer.how is How.READ or place.exists() or mount.place.startswith("/proc/"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if os.path.isdir(mount.source) else place.touch()


def _written(mount: Mount) -> tuple[str, str]:
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.place}"]
    return "--mount", quoted(fields + ([] if mount.how is How.WRITE else ["ro"]))
