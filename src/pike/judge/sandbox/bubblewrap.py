"""The level that bubblewrap makes: own PID, network, IPC and mount namespaces.

Does not know limits on memory or time: the launcher and the judge hold those.
"""

import functools
import glob
import os
import shutil
import subprocess
import tempfile

from pike.judge.sandbox.filesystem import KERNEL_SWITCHES, Mount, MountMode, mounts
from pike.judge.sandbox.level import FIRST_PROCESS, Claim, SandboxLevel, SandboxSpec


class Bubblewrap(SandboxLevel):
    """`bwrap` with namespaces; works as root and, if the kernel allows, as a user."""

    name = "bubblewrap"
    claims = frozenset(Claim)
    filters = True

    def obstacle(self) -> str:
        """Why it does not work here: not installed, or namespaces are refused."""
        return _obstacle()

    def command(self, spec: SandboxSpec, argv: list[str]) -> list[str]:
        """`bwrap ... argv`."""
        wrapped = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        wrapped += ["--as-pid-1"]  # bwrap's own first process would lie open to the candidate
        kernel = []
        if os.geteuid() == 0:
            # Without this, programs that root starts keep their capabilities. User 0 may set the
            # kernel's switches without any.
            wrapped += ["--cap-drop", "ALL"]
            kernel = [flag for path in KERNEL_SWITCHES for flag in ("--ro-bind-try", path, path)]
        wrapped += ["--dev", "/dev", "--proc", "/proc", *kernel]
        found = mounts(spec)
        wrapped += [flag for mount in found for flag in _mount_flags(mount)]
        wrapped += [flag for m in found if m.mode is MountMode.EMPTY for flag in ("--remount-ro", m.path)]
        for path in glob.glob("/dev/nvidia*") if spec.cuda else ():
            wrapped += ["--dev-bind", path, path]
        wrapped += ["--chdir", spec.workdir, "--remount-ro", "/dev", "--remount-ro", "/"]
        if spec.filter_fd is not None:
            wrapped += ["--seccomp", str(spec.filter_fd)]
        return [*wrapped, "--", *FIRST_PROCESS, *argv]


def _mount_flags(mount: Mount) -> tuple[str, ...]:
    if mount.mode is MountMode.EMPTY:
        return "--tmpfs", mount.path
    if mount.mode is MountMode.BLANK:
        return "--ro-bind", os.devnull, mount.path
    flag = {MountMode.LINK: "--symlink", MountMode.READ: "--ro-bind", MountMode.WRITE: "--bind"}[mount.mode]
    return flag, mount.source, mount.path


@functools.cache
def _obstacle() -> str:
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed (the package is called bubblewrap)"
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        for part in ("tmp", "shm"):
            os.makedirs(os.path.join(folder, "caches", part))
        command = Bubblewrap().command(SandboxSpec(folder, (), False), ["true"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bwrap fails: {done.stderr.strip()[-200:]}"
