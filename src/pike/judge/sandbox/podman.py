"""Podman: containers whose root is an empty folder. It needs no image, no daemon and no rights.

Does not know what every engine is asked for (`container`).
"""

import os
from pathlib import Path

from pike.judge.sandbox.container import Container, ask, listed, run_options
from pike.judge.sandbox.filesystem import Mount, MountMode, engine_mounts, links
from pike.judge.sandbox.level import FIRST_PROCESS, SandboxSpec

_PROGRAM = ("podman", "--log-level", "error", "--events-backend", "none")


class Podman(Container):
    """`podman run --rootfs`, as root or as a user."""

    name = "podman"
    variants = ((), ("--runtime", "runc"), ("--runtime", "crun"))

    def run(self, variant: tuple[str, ...], spec: SandboxSpec, root: Path) -> list[str]:
        """The root is a folder with the symbolic links that the system's folders need."""
        for path, target in links(spec).items():
            link = root / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        own = ("--no-hosts", "--read-only-tmpfs=false", "--http-proxy=false")
        mounted = (word for mount in engine_mounts(spec) for word in _mount_option(mount))
        return [
            *_PROGRAM,
            *variant,
            "run",
            *run_options(spec, root.name),
            *own,
            *mounted,
            "--rootfs",
            str(root),
            *FIRST_PROCESS,
        ]

    def names(self) -> list[str]:
        """What `podman ps` lists."""
        return listed(_PROGRAM)

    def remove(self, root: Path) -> None:
        """Ask first: removing nothing takes longer."""
        if ask(_PROGRAM, "container", "exists", root.name).returncode == 0:
            ask(_PROGRAM, "rm", "--force", "--time", "0", root.name)


def _mount_option(mount: Mount) -> tuple[str, str]:
    if mount.mode is MountMode.EMPTY:
        return "--tmpfs", f"{mount.path}:ro,size=64k,notmpcopyup"
    # A device file on a mount without devices cannot be opened.
    source = os.devnull if mount.mode is MountMode.BLANK else mount.source
    return "--volume", f"{source}:{mount.path}:{'rw' if mount.mode is MountMode.WRITE else 'ro'},nodev,nosuid"
