"""A level made with podman: a container without an image, whose file system is what the view allows and nothing else.

Knows the command line of `podman`. Descriptors and the environment do not pass through a container tool, so the child
connects to a socket in its own folder and its environment is put before its command. Does not know what runs inside.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pike.evaluate.sandbox import keeper
from pike.evaluate.sandbox.level import Cell, Claim
from pike.evaluate.sandbox.view import Show, sights

_NOT_SEEN = ("/etc/hostname", "/etc/resolv.conf")
"""What podman would make up or copy from the host."""
_PODMAN = ("podman", "--log-level", "error", "--events-backend", "none")
_FIRST = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
"""The first process inside: takes in orphans, as the first process of a namespace must."""
_ROOT = "-root"
_PROBE_SECONDS, _END_SECONDS = 20.0, 10.0
_MOST_FILES, _MOST_TASKS = 4096, 16384
_SLACK_BYTES = 512 << 20
_RUNTIMES = ("", "runc", "crun")


class Container:
    """`podman run --rootfs`, as root or as a user."""

    name = "container"
    seen_with_cuda = False
    claims = frozenset(Claim)
    filters = False
    inherits = False

    def obstacle(self) -> str:
        """Why it does not work here: no tool, or a container does not start."""
        return _found()[1]

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`podman run ... argv`, below a process that keeps what podman detaches."""
        return _command(_found()[0], cell, argv)

    def end(self, cell: Cell) -> None:
        """Remove what is left of the container (nothing, usually) and the folder that was its root."""
        discard(_root(cell))


def discard(root: Path) -> None:
    """Remove the container whose root a folder was, if it was one, and the folder; returns without a word if not."""
    if not root.name.endswith(_ROOT) or not root.is_dir():
        return
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if _podman("container", "exists", root.name).returncode == 0:
            _podman("rm", "--force", "--time", "0", root.name)
    shutil.rmtree(root, ignore_errors=True)


def _command(runtime: str, cell: Cell, argv: list[str]) -> list[str]:
    root = _root(cell)
    root.mkdir(exist_ok=True)
    flags = ["--rm", "--name", root.name, "--log-driver", "none", "--workdir", cell.workdir]
    flags += ["--network", "none", "--ipc", "private", "--cgroupns", "private", "--no-hosts"]
    flags += ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all"]
    for option in ("no-new-privileges", "seccomp=unconfined", "label=disable"):  # the child brings its own filter
        flags += ["--security-opt", option]
    flags += [*_limits(cell), *_mounts(cell, root)]
    environment = [f"{name}={value}" for name, value in cell.environment]
    keep = (sys.executable, "-I", "-S", str(keeper.__file__))
    return [*keep, *_PODMAN, *(("--runtime", runtime) if runtime else ()), "run", *flags, "--rootfs", str(root),
            *_FIRST, "env", "-i", *environment, *argv]  # fmt: skip


def _limits(cell: Cell) -> list[str]:
    """The kernel's own limits a little above the judge's, which then can say in words what was too much."""
    most = {"nofile": _MOST_FILES, "nproc": _MOST_TASKS}
    kinds = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    flags = []
    for name, kind in kinds.items():
        hard = resource.getrlimit(kind)[1]
        value = most[name] if hard == resource.RLIM_INFINITY else min(hard, most[name])
        flags += ["--ulimit", f"{name}={value}:{value}"]
    if cell.memory_bytes:
        most_bytes = str(cell.memory_bytes + _SLACK_BYTES)
        flags += ["--memory", most_bytes, "--memory-swap", most_bytes]
    return [*flags, "--pids-limit", str(cell.tasks or -1)]


def _mounts(cell: Cell, root: Path) -> Iterator[str]:
    # One mount for each place: later sights lie over earlier ones, and podman orders the places itself.
    for sight in {sight.path: sight for sight in sights(cell)}.values():
        if sight.show is Show.LINK:
            link = root / sight.path.lstrip("/")
            if not link.is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.readlink(sight.path))
        elif sight.show is Show.READ:
            yield from _mount(sight.path, sight.path, "ro")
        elif sight.show is Show.EMPTY:
            yield from ("--tmpfs", f"{sight.path}:ro,size=64k,notmpcopyup")
        else:
            yield from _mount("/dev/null", sight.path, "ro")
    for path in _NOT_SEEN:
        yield from _mount("/dev/null", path, "ro")
    yield from _mount(f"{cell.workdir}/caches/tmp", "/tmp", "rw")
    yield from _mount(f"{cell.workdir}/caches/shm", "/dev/shm", "rw")
    for own in (cell.workdir, *([cell.kept_caches] if cell.kept_caches else [])):
        yield from _mount(own, own, "rw")
    for device in glob.glob("/dev/nvidia*") if cell.cuda else ():
        if not os.path.isdir(device):
            yield from ("--device", device)


def _mount(source: str, place: str, mode: str) -> tuple[str, str]:
    return "--volume", f"{source}:{place}:{mode},nodev,nosuid"


def _root(cell: Cell) -> Path:
    """An empty folder beside the child's own; its name is the container's, and tells whose that is."""
    return Path(cell.workdir + _ROOT)


def _podman(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_PODMAN, *arguments], capture_output=True, text=True, check=False, timeout=_END_SECONDS)


@functools.cache
def _found() -> tuple[str, str]:
    """Which runtime works (empty for podman's own choice), and why none does."""
    if not shutil.which("podman"):
        return "", "podman is not installed (the package is called podman)"
    with contextlib.suppress(subprocess.TimeoutExpired):
        _sweep()
    reasons = []
    for runtime in _RUNTIMES:
        if not runtime or shutil.which(runtime):
            reasons.append(_tried(runtime))
            if not reasons[-1]:
                return runtime, ""
    return "", f"podman runs no container: {'; '.join(reasons)}"


def _tried(runtime: str) -> str:
    """Why a trivial container does not run under a runtime, empty if it does what it must."""
    with tempfile.TemporaryDirectory(prefix=f"pike-{os.getpid()}-") as folder:
        for part in ("tmp", "shm"):
            os.makedirs(os.path.join(folder, "caches", part))
        cell = Cell(folder, (), False, environment=(("PIKE", "inside"),), memory_bytes=1 << 30, tasks=64)
        try:
            done = subprocess.run(
                _command(runtime, cell, ["sh", "-c", 'echo "$PIKE" > probe; ! touch /probe']),
                capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            probe = Path(folder, "probe")
            if done.returncode == 0 and probe.exists() and probe.read_text() == "inside\n":
                return ""
            return done.stderr.strip()[-200:] or f"a trivial container ends with code {done.returncode}"
        except subprocess.TimeoutExpired:
            return f"a trivial container takes more than {_PROBE_SECONDS:g} seconds"
        finally:
            Container().end(cell)


def _sweep() -> None:
    """Remove containers of judges that no longer live, whose folders may be gone already."""
    for name in _podman("ps", "--all", "--format", "{{.Names}}").stdout.split():
        owner = name.split("-")[1] if name.startswith("pike-") and name.endswith(_ROOT) else ""
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _podman("rm", "--force", "--time", "0", name)
