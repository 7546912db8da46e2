"""The engine podman: containers without an image, whose root is an empty folder. It needs no daemon and no rights.

Knows what podman calls things. Does not know what every engine is asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate.sandbox.engine import FIRST, How, Mount, ask, common, links, listed, mounts
from pike.evaluate.sandbox.level import Cell

_PROGRAM = ("podman", "--log-level", "error", "--events-backend", "none")
_REMOVE = ("rm", "--force", "--time", "0")


@dataclass(frozen=True, slots=True)
class Podman:
    """`podman run --rootfs`, as root or as a user."""

    name: str = "podman"
    variants: tuple[tuple[str, ...], ...] = ((), ("--runtime", "runc"), ("--runtime", "crun"))

    def prepare(self) -> str:
        """Nothing is made ahead."""
        return ""

    def run(self, variant: tuple[str, ...], cell: Cell, root: Path) -> list[str]:
        """The root is a folder with the links that the system's folders need."""
        for path, target in links(cell).items():
            link = root / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        own = ("--no-hosts", "--read-only-tmpfs=false", "--http-proxy=false")
        mounted = (word for mount in mounts(cell) for word in _written(mount))
        return [*_PROGRAM, *variant, "run", *common(cell, root.name), *own, *mounted, "--rootfs", str(root), *FIRST]

    def farewell(self, name: str) -> tuple[str, ...]:
        """None: what podman detaches falls to the keeper."""
        return ()

    def names(self) -> list[str]:
        """What `podman ps` lists."""
        return listed(_PROGRAM)

    def remove(self, root: Path) -> None:
        """Ask first, which is quicker than removing nothing."""
        if ask(_PROGRAM, "container", "exists", root.name).returncode == 0:
            ask(_PROGRAM, *_REMOVE, root.name)


def _written(mount: Mount) -> tuple[str, str]:
    if mount.how is How.EMPTY:
        return "--tmpfs", f"{mount.place}:ro,size=64k,notmpcopyup"
    # A device that may not be opened as one is a file that cannot be read.
    source = os.devnull if mount.how is How.BLANK else mount.source
    return "--volume", f"{source}:{mount.place}:{'rw' if mount.how is How.WRITE else 'ro'},nodev,nosuid"
