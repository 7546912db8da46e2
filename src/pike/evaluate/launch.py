"""Child processes: started in a sandbox, spoken to over a socket, and certain to be gone afterwards.

Knows how a child is started, stopped and ended, and what it leaves behind. Does not know what candidates are or when
a verdict is reached.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.evaluate import cgroup, filters, processes
from pike.evaluate.channel import Channel
from pike.evaluate.child.wire import NONCE_BYTES, Command, Up
from pike.evaluate.environment import child_environment
from pike.evaluate.logs import Tail
from pike.evaluate.sandbox import Cell, Claim, SandboxLevel, discard
from pike.evaluate.watch import THREADS_PER_PROCESS, Limits, Watch

_MOST_FILE_BYTES = 8 << 30
_MOST_FOLDER_BYTES = 16 << 30
_END_SECONDS = 5.0
_numbers = itertools.count(1)
_ours: set[int] = set()
"""Process ids of all children that were started here and not yet ended."""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """How one child is held.

    Attributes:
        level: the sandbox level.
        readable: files that the child must be able to read besides Python, torch and its own folder.
        cuda: whether it needs the GPU.
        memory_bytes: limit on host memory of all its processes together, 0 for none. Without CUDA, which reserves huge
            address ranges, also the limit on the address space of each.
        importable: folders from which it must be able to import.
        hidden: files that it must not read.
        processes: limit on processes at once, 0 for none; see `watch.Limits` for threads.
        disk_bytes: limit on what it writes, 0 for none.
        live_module: whether the task is a live module, whose file may import `pike` too.
        kept_caches: folder for compilers' caches that outlives it (`caches`), empty for one in its own folder.
        trusted: runs nothing that distrust applies to (the reference): no limits, no filter, orphans are not its own.
    """

    level: SandboxLevel
    readable: tuple[str, ...]
    cuda: bool
    memory_bytes: int = 0
    importable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    processes: int = 512
    disk_bytes: int = _MOST_FOLDER_BYTES
    live_module: bool = False
    kept_caches: str = ""
    trusted: bool = False

    @property
    def limits(self) -> Limits:
        """What its tree may use."""
        return Limits(0, 0, 0) if self.trusted else Limits(self.memory_bytes, self.processes, self.disk_bytes)


class Child:
    """One child process in its own folder, which is removed with it."""

    def __init__(self, plan: ChildPlan) -> None:
        self._plan = plan
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._seq = 0
        self._others = processes.children_of(os.getpid()) - _ours
        self._group = _group(plan.limits) if plan.level.inherits else None
        self._channel = Channel(self.folder, plan.level.inherits)
        self._process = self._start()
        self._channel.started()
        self._inmost = (0, "")
        _ours.add(self.pid)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._logs = (("stdout", Tail(self._process.stdout)), ("stderr", Tail(self._process.stderr)))
        written = (self.folder, Path(plan.kept_caches)) if plan.kept_caches else (self.folder,)
        self.watch = Watch(self.pids, written, plan.limits, self._in_memory)

    def _start(self) -> subprocess.Popen[bytes]:
        plan = self._plan
        filtered = filters.work() and not plan.trusted
        by_level = filtered and plan.level.filters
        program = filters.first_program() if by_level else None
        environment = child_environment(self.folder, Path(plan.kept_caches) if plan.kept_caches else None)
        self._cell = _cell(self.folder, plan, environment, program)
        argv = plan.level.command(self._cell, self._argv(filtered and not by_level))
        try:
            return subprocess.Popen(
                self._group.joining(argv) if self._group else argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env=environment if plan.level.inherits else None,
                pass_fds=(*self._channel.descriptors, *(() if program is None else (program,))),
                start_new_session=True,
            )
        finally:
            if program is not None:
                os.close(program)

    def _argv(self, filter_itself: bool) -> list[str]:
        memory = 0 if self._plan.cuda or self._plan.trusted else self._plan.memory_bytes
        numbers = (memory, _MOST_FILE_BYTES, int(filter_itself), int(not self._plan.trusted))
        start = [sys.executable, "-P", "-u", "-m", "pike.evaluate.child", self._channel.address, self._nonce.hex()]
        return [*start, *(str(number) for number in numbers)]

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    def order(
        self, command: Command, body: Any, deadline: float, fds: tuple[int, ...], on_wait: Callable[[], float]
    ) -> Up:
        """Send a command and wait for its answer.

        Args:
            command: what to do.
            body: its pickled body.
            deadline: on `time.monotonic`'s clock.
            fds: descriptors that travel with it.
            on_wait: see `child.wire.receive_up`.

        Raises:
            WireClosed, WireTimeout, WireViolation: see `child.wire`.
        """
        self.send(command, body, fds)
        return self.receive(deadline, on_wait)

    def send(self, command: Command, body: Any = None, fds: tuple[int, ...] = ()) -> None:
        """Send a command; its answer is fetched with `receive`.

        Raises:
            WireClosed: the child is gone.
        """
        self._seq += 1
        self._channel.send(command, self._seq, body, fds)

    def receive(self, deadline: float, on_wait: Callable[[], float] = lambda: 0.0) -> Up:
        """The answer to the last command; see `child.wire.receive_up`.

        Raises:
            WireClosed, WireTimeout, WireViolation: see `child.wire`.
        """
        return self._channel.receive(self._nonce, self._seq, deadline, on_wait, lambda: self._process.poll() is None)

    def has_answered(self) -> bool:
        """Whether `receive` would find something at once: an answer, or the end of the child."""
        return self._channel.has_answered()

    def freeze(self) -> None:
        """Stop the child and all that descend from it, so that they are quiet while something else is timed."""
        self._set_still(True)

    def thaw(self) -> None:
        """Let a frozen child go on."""
        self._set_still(False)

    def _set_still(self, still: bool) -> None:
        if self._group:
            self._group.freeze(still)
            return
        for pid in self.pids():  # compilers and whatever else left the process group are among them
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if still else signal.SIGCONT)

    def confine(self, cpus: frozenset[int]) -> None:
        """Let the kernel keep its whole tree on these CPUs, where its control group can."""
        if self._group:
            self._group.confine(cpus)

    def pids(self) -> set[int]:
        """The child and all that descend from it, orphans that fell to this process included."""
        if self._group and (members := self._group.pids()):
            return members
        strays = set[int]()
        if not self._plan.trusted and self._plan.level.inherits:
            strays = processes.strays_of(os.getpid()) - self._others - _ours
        roots = {self.pid, *strays, *self._elsewhere()}
        found = roots.union(*(processes.descendants_of(pid) for pid in roots))
        return found if self._plan.level.inherits else _inside(found) or found

    def _elsewhere(self) -> set[int]:
        """The first process inside, where it need not descend from what was started (a daemon started it)."""
        if not self._inmost[0] and self._channel.peer:
            first = processes.first_beside(self._channel.peer)
            self._inmost = (first, processes.started(first)) if _inside({first}) else (0, "")
        pid, since = self._inmost
        return {pid} if since and processes.started(pid) == since else set()

    def _in_memory(self) -> tuple[Path, ...]:
        """The container's `/dev`, which it may write to."""
        return tuple(Path(f"/proc/{pid}/root/dev") for pid in self._elsewhere())

    def end_helpers(self) -> None:
        """Kill every process of its tree but the child itself, compile workers for example."""
        filters.end_helpers(self._around, self.pids)

    def speaker(self) -> int:
        """The process that runs the candidate, which may not be the one that was started."""
        return filters.speaker(self._around, self.pids())

    def unsealed(self) -> str:
        """Why the tree of a sealed child cannot be trusted not to start programs, empty if it can."""
        return filters.missing(self._around, self.pids)

    @property
    def _around(self) -> filters.Around:
        level = self._plan.level
        return filters.Around(self.pid, Claim.PROCESSES in level.claims, self._channel.peer, level.filters)

    def ending(self) -> str:
        """How the process ended, in words, waiting shortly for it."""
        try:
            code = self._process.wait(timeout=2.0 if self._plan.level.inherits else 2 * _END_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        if code > 128 and code - 128 in signal.valid_signals():
            return f"was killed by {signal.Signals(code - 128).name}"
        return f"exited with code {code}"

    def log(self) -> str:
        """Both streams, each with its head and its last 10,000 bytes."""
        parts = [f"--- {name} ---\n{text}" for name, tail in self._logs if (text := tail.text().strip())]
        return "\n".join(parts)

    def end(self) -> None:
        """Kill all its processes and wait until they are gone."""
        if self._group:
            self._group.kill()
        if not self._plan.level.inherits:
            self._end_inside()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        while left := {pid for pid in self.pids() if processes.held(pid).alive}:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)
        self._process.kill()
        self._process.wait()

    def _end_inside(self) -> None:
        """Kill what is in the level's namespace and let the level's own program clean up behind it."""
        if inside := _inside(self.pids()):
            for pid in inside:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END_SECONDS)

    def kill(self) -> None:
        """End it and remove its folder; may be called again."""
        if self.pid in _ours:
            self.end()
        _ours.discard(self.pid)
        self._channel.close()
        self._plan.level.end(self._cell)
        if self._group:
            self._group.close()
        for _, tail in self._logs:
            tail.close()
        remove(self.folder)


def _cell(folder: Path, plan: ChildPlan, environment: dict[str, str], program: int | None) -> Cell:
    return Cell(
        workdir=str(folder),
        readable=plan.readable,
        cuda=plan.cuda,
        importable=plan.importable,
        hidden=plan.hidden,
        filter_fd=program,
        live_module=plan.live_module,
        kept_caches=plan.kept_caches,
        environment=tuple(environment.items()),
        memory_bytes=plan.limits.memory_bytes,
        tasks=plan.limits.processes * THREADS_PER_PROCESS,
    )


def _inside(pids: set[int]) -> set[int]:
    """Those in a PID namespace below this process's own."""
    ours = len(processes.held(os.getpid()).numbers)
    return {pid for pid in pids if len(processes.held(pid).numbers) > ours}


def folder_prefix() -> str:
    """How temporary folders of this process are called, so that `sweep` knows whose they are."""
    return f"pike-{os.getpid()}-"


def sweep(ending: int = 0) -> None:
    """Remove what judges left behind, dead ones and the one that is `ending`: temporary folders, containers, groups."""
    for path in Path(tempfile.gettempdir()).glob("pike-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and (int(owner) == ending or not Path(f"/proc/{owner}").exists()):
            discard(path)
            remove(path)
    cgroup.sweep(ending)


def remove(path: Path) -> None:
    """Delete what a candidate made, however deep and with whatever permissions; what cannot be deleted stays."""
    try:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], capture_output=True, check=False)


def _group(limits: Limits) -> cgroup.Group | None:
    place = cgroup.find()
    name = f"{cgroup.prefix()}{next(_numbers)}"
    with contextlib.suppress(OSError):
        return cgroup.Group(place, name, limits.memory_bytes, limits.processes * THREADS_PER_PROCESS) if place else None
    return None
