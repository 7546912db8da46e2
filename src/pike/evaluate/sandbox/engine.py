"""What every container engine is asked for, and which path of the view is mounted how.

Knows the words that podman and docker share, limits among them. Does not know how an engine writes a mount, where its
root comes from, or how its containers end; that is the engine's own file.
"""

from __future__ import annotations

import enum
import glob
import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pike.evaluate.sandbox.level import Cell
from pike.evaluate.sandbox.view import Show, sights

FIRST = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
"""The first process inside: takes in orphans, as the first process of a namespace must."""
_MADE_UP = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")
"""What an engine would make up or copy from the host."""
_ASK_SECONDS = 10.0
_MOST_FILES, _MOST_TASKS = 4096, 16384
_SLACK_BYTES = 512 << 20


class How(enum.Enum):
    """How a path is mounted."""

    READ = "read-only, with all below it"
    WRITE = "writable"
    EMPTY = "an empty folder, read-only"
    BLANK = "a file that cannot be read"


@dataclass(frozen=True, slots=True)
class Mount:
    """One place in the container.

    Attributes:
        place: where it appears.
        how: how.
        source: what appears there, for `READ` and `WRITE`.
    """

    place: str
    how: How
    source: str = ""


class Engine(Protocol):
    """One program that starts containers."""

    def __hash__(self) -> int:
        """Whether it works is remembered for each."""
        ...

    @property
    def name(self) -> str:
        """Its name, which is the level's and the program's."""
        ...

    @property
    def variants(self) -> tuple[tuple[str, ...], ...]:
        """Options that may make it work here, tried in this order."""
        ...

    def prepare(self) -> str:
        """Whatever is made once for all containers; why that does not work, empty if it does.

        Raises:
            OSError, subprocess.TimeoutExpired: see `ask`; so do the methods below.
        """
        ...

    def run(self, variant: tuple[str, ...], cell: Cell, root: Path) -> list[str]:
        """The command up to the program inside; `root` is an empty folder that is the container's, and its name."""
        ...

    def farewell(self, name: str) -> tuple[str, ...]:
        """The command that ends a container whose client was killed; empty where it ends with the client's tree."""
        ...

    def names(self) -> list[str]:
        """The containers that it remembers."""
        ...

    def remove(self, root: Path) -> None:
        """Kill and remove the container that a folder belongs to, if there is one."""
        ...


def ask(program: tuple[str, ...], *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run an engine's program.

    Raises:
        OSError, subprocess.TimeoutExpired: it does not run, or not within 10 seconds.
    """
    return subprocess.run([*program, *arguments], capture_output=True, check=False, timeout=_ASK_SECONDS, input=given)


def listed(program: tuple[str, ...]) -> list[str]:
    """The names that `ps` lists.

    Raises:
        OSError, subprocess.TimeoutExpired: see `ask`.
    """
    return ask(program, "ps", "--all", "--format", "{{.Names}}").stdout.decode(errors="replace").split()


def common(cell: Cell, name: str) -> Iterator[str]:
    """Options that podman and docker share."""
    yield from ("--rm", "--name", name, "--log-driver", "none", "--workdir", cell.workdir)
    yield from ("--network", "none", "--ipc", "private", "--cgroupns", "private", "--read-only", "--cap-drop", "all")
    for option in ("no-new-privileges", "seccomp=unconfined", "label=disable"):  # the child brings its own filter
        yield from ("--security-opt", option)
    yield from _limits(cell)
    for device in glob.glob("/dev/nvidia*") if cell.cuda else ():
        if not os.path.isdir(device):
            yield from ("--device", device)


def mounts(cell: Cell) -> Iterator[Mount]:
    """All mounts of a container, one for each place: engines order the places themselves."""
    hows = {Show.READ: How.READ, Show.EMPTY: How.EMPTY, Show.BLANK: How.BLANK}
    for sight in {sight.path: sight for sight in sights(cell)}.values():  # later sights lie over earlier ones
        if sight.show is not Show.LINK:
            yield Mount(sight.path, hows[sight.show], sight.path)
    yield from (Mount(path, How.BLANK) for path in _MADE_UP)
    yield Mount("/tmp", How.WRITE, f"{cell.workdir}/caches/tmp")
    yield Mount("/dev/shm", How.WRITE, f"{cell.workdir}/caches/shm")
    for own in (cell.workdir, *([cell.kept_caches] if cell.kept_caches else [])):
        yield Mount(own, How.WRITE, own)


def links(cell: Cell) -> dict[str, str]:
    """The symbolic links that the root itself must hold: path to target."""
    return {sight.path: os.readlink(sight.path) for sight in sights(cell) if sight.show is Show.LINK}


def quoted(fields: list[str]) -> str:
    """Fields of a `--mount`, which is a line of comma-separated values."""
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _limits(cell: Cell) -> Iterator[str]:
    """The kernel's own limits a little above the judge's, which then can say in words what was too much."""
    most = {"nofile": (resource.RLIMIT_NOFILE, _MOST_FILES), "nproc": (resource.RLIMIT_NPROC, _MOST_TASKS)}
    for name, (kind, value) in most.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(hard, value)
        yield from ("--ulimit", f"{name}={value}:{value}")
    if cell.memory_bytes:
        most_bytes = str(cell.memory_bytes + _SLACK_BYTES)
        yield from ("--memory", most_bytes, "--memory-swap", most_bytes)
    yield from ("--pids-limit", str(cell.tasks or -1))
