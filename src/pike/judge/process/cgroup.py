"""A control group (version 2) for each child, where this process may make one.

Without such a place, callers fall back to signals and samples. Does not know what runs in a group.
"""

import contextlib
import functools
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_JOIN = 'echo 0 >"$0" 2>/dev/null; exec "$@"'
_GONE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GroupParent:
    """A group under which ours can be made, and what the kernel limits there."""

    folder: Path
    memory: bool
    tasks: bool
    cpus: bool = False


class ProcessGroup:
    """One group. Processes started through `joining`, and their descendants, can never leave it."""

    def __init__(self, place: GroupParent, name: str, memory_bytes: int, tasks: int) -> None:
        self.path = place.folder / name
        self.path.mkdir()
        if place.memory and memory_bytes:
            self._write("memory.max", memory_bytes)
            self._write("memory.swap.max", 0)
            self._write("memory.oom.group", 1)
        if place.tasks and tasks:
            self._write("pids.max", tasks)

    def joining(self, argv: list[str]) -> list[str]:
        """`argv`, run by a shell that joins the group first."""
        return ["/bin/sh", "-c", _JOIN, str(self.path / "cgroup.procs"), *argv]

    def take(self, pid: int) -> None:
        """Put a process into it that has started nothing yet."""
        self._write("cgroup.procs", pid)

    def pids(self) -> set[int]:
        """The processes in it."""
        with contextlib.suppress(OSError):
            return {int(pid) for pid in (self.path / "cgroup.procs").read_text().split()}
        return set()

    def freeze(self, still: bool) -> None:
        """Stop all of it, or let it go on."""
        self._write("cgroup.freeze", int(still))

    def confine(self, cpus: frozenset[int]) -> None:
        """Keep all of it on these CPUs, if the kernel does that for groups."""
        self._write("cpuset.cpus", ",".join(str(cpu) for cpu in sorted(cpus)))

    def kill(self) -> None:
        """Kill all of it at once; no fork escapes."""
        self._write("cgroup.kill", 1)

    def close(self) -> None:
        """Kill and remove it."""
        self.kill()
        deadline = time.monotonic() + _GONE_SECONDS
        while self.path.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.002)

    def _write(self, name: str, value: int | str) -> None:
        with contextlib.suppress(OSError):
            (self.path / name).write_text(str(value))


@functools.cache
def find() -> GroupParent | None:
    """The best place for groups; None if this process may not make any. Tried once."""
    own = _own()
    if own is None:
        return None
    for controllers in ("+memory +pids", "+cpuset"):
        with contextlib.suppress(OSError):  # works at the root, and where no process is in the way
            (own / "cgroup.subtree_control").write_text(controllers)
    places = [place for folder in (own, own.parent) if (place := _tried(folder)) is not None]
    return max(places, key=lambda place: place.memory + place.tasks, default=None)


def prefix() -> str:
    """The prefix of this process's groups; it names their owner and its PID namespace."""
    return f"pike-{os.getpid()}-{_namespace()}-"


def sweep(ending: int = 0) -> None:
    """Kill and remove the groups of dead judges, and of the one that is `ending`."""
    place = find()
    for path in place.folder.glob(f"pike-*-{_namespace()}-*") if place else ():
        owner = path.name.split("-")[1]
        if owner.isdigit() and (int(owner) == ending or not Path(f"/proc/{owner}").exists()):
            group = ProcessGroup.__new__(ProcessGroup)
            group.path = path
            group.close()


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _own() -> Path | None:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        mount = next(line.split()[4] for line in lines if line.partition(" - ")[2].startswith("cgroup2 "))
        name = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        path = Path(mount, name.lstrip("/"))
        return path if path.is_dir() else None
    return None


def _tried(folder: Path) -> GroupParent | None:
    """The limits of a group in `folder`; None unless a process can really join one."""
    if not (folder / "cgroup.procs").exists():
        return None
    probe = folder / f"{prefix()}probe"
    try:
        group = ProcessGroup(GroupParent(folder, False, False), probe.name, 0, 0)
    except OSError:
        return None
    try:
        if not (probe / "cgroup.kill").exists() or not (probe / "cgroup.freeze").exists():
            return None
        seen = subprocess.run(group.joining(["cat", "/proc/self/cgroup"]), capture_output=True, text=True, check=False)
        if f"/{probe.name}\n" not in seen.stdout:
            return None
        return GroupParent(folder, *((probe / name).exists() for name in ("memory.max", "pids.max", "cpuset.cpus")))
    finally:
        group.close()
