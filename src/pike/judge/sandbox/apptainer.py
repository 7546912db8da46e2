"""Apptainer, which high-performance clusters have: no daemon, no image here, nothing remembered.

A mount point must exist before something is mounted on it. Limits need systemd there, so none are
asked for. Does not know what every engine does (`container`).
"""

import os
from dataclasses import replace
from pathlib import Path

from pike.judge.sandbox.container import Container, gpu_devices, quoted
from pike.judge.sandbox.filesystem import KERNEL_SWITCHES, Mount, MountMode, engine_mounts, links, outermost_first
from pike.judge.sandbox.level import SandboxSpec

_OPTIONS = ("--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--network", "none")
_NOT_MOUNTED = "sys,tmp,home,cwd,hostfs,bind-paths"
"""What the machine's settings would mount besides."""


class Apptainer(Container):
    """`apptainer exec` on a folder of mount points, as root or, if the kernel allows, as a user."""

    name = "apptainer"
    variants = ((), ("--userns",))

    def run(self, variant: tuple[str, ...], spec: SandboxSpec, root: Path) -> list[str]:
        """`root` holds the container's root, a blank file and folders that stand for empty ones."""
        inside, blank = root / "root", root / "blank"
        for folder in ("dev", "etc", "proc", "sys"):
            (inside / folder).mkdir(parents=True)
        blank.touch(mode=0)
        for path, target in links(spec).items():
            (inside / path.lstrip("/")).symlink_to(target)
        found = _with_sources(spec, root)
        _make_mount_points(found, inside)
        # Variables in its own environment add mounts, and its first process inside keeps them.
        clean = ("env", "-i", f"PATH={os.environ.get('PATH', os.defpath)}", "apptainer", "--silent", "exec")
        mounted = [word for mount in found for word in _mount_option(mount)]
        own = ("--no-mount", _NOT_MOUNTED, "--pwd", spec.workdir)
        return [*clean, *variant, *_OPTIONS, *own, *mounted, str(inside)]


def _with_sources(spec: SandboxSpec, root: Path) -> list[Mount]:
    """All mounts, outermost first, each with a file or folder that exists."""
    switches = [Mount(path, MountMode.READ, path) for path in KERNEL_SWITCHES if os.path.exists(path)]
    devices = [Mount(path, MountMode.WRITE, path) for path in (gpu_devices() if spec.cuda else ())]
    made = []
    for number, mount in enumerate(outermost_first([*engine_mounts(spec), *switches, *devices])):
        source = mount.source
        if mount.mode is MountMode.BLANK:
            source = str(root / "blank")
        elif mount.mode is MountMode.EMPTY:
            source = str(root / f"empty{number}")
            os.mkdir(source)
        made.append(replace(mount, source=source))
    return made


def _make_mount_points(found: list[Mount], inside: Path) -> None:
    """Make the mount point of each mount in the mount around it, unless that is the system's."""
    for mount in found:
        around = [other for other in found if other is not mount and mount.path.startswith(other.path + "/")]
        outer = around[-1] if around else Mount("", MountMode.EMPTY, str(inside))
        point = Path(outer.source + mount.path.removeprefix(outer.path))
        if outer.mode is MountMode.READ or point.exists() or mount.path.startswith("/proc/"):
            continue
        point.parent.mkdir(parents=True, exist_ok=True)
        point.mkdir() if os.path.isdir(mount.source) else point.touch()


def _mount_option(mount: Mount) -> tuple[str, str]:
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.path}"]
    return "--mount", quoted(fields + ([] if mount.mode is MountMode.WRITE else ["ro"]))
