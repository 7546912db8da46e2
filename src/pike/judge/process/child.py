"""Child processes: started in a sandbox, spoken to over a socket, and certain to be gone.

Knows how a child is started, paused and ended. Does not know candidates or verdicts.
"""

import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.judge import processes
from pike.judge.child.wire import NONCE_BYTES, ChildMessage, Command
from pike.judge.process import cgroup, filters
from pike.judge.process.channel import Channel
from pike.judge.process.environment import child_environment
from pike.judge.process.fork_server import ForkedProcess, fork_server
from pike.judge.process.leftovers import folder_prefix, remove
from pike.judge.process.logs import OutputTail
from pike.judge.process.watch import THREADS_PER_PROCESS, Limits, Watch
from pike.judge.sandbox import Claim, SandboxLevel, SandboxSpec

_MOST_FILE_BYTES = 8 << 30
_MOST_FOLDER_BYTES = 16 << 30
_END_SECONDS = 5.0
_numbers = itertools.count(1)
_ours: set[int] = set()
"""Process ids of all children of this process that were not ended yet."""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """How one child is held; `SandboxSpec` describes what it may see.

    Attributes:
        memory_bytes: limit on host memory of all its processes together, 0 for none. Without CUDA,
            which reserves huge address ranges, it also limits the address space of each.
        processes: limit on processes at once, 0 for none; see `watch.Limits` for threads.
        disk_bytes: limit on what it writes, 0 for none.
        trusted: runs no candidate but the reference: no limits, no filter, orphans are not its own.
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
        self._written = (self.folder, Path(plan.kept_caches)) if plan.kept_caches else (self.folder,)
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
        self._logs = (("stdout", OutputTail(self._process.stdout)), ("stderr", OutputTail(self._process.stderr)))
        self.watch = Watch(self.pids, self._written, plan.limits, self._in_memory)

    def _start(self) -> subprocess.Popen[bytes] | ForkedProcess:
        plan = self._plan
        filtered = filters.work() and not plan.trusted
        by_level = filtered and plan.level.filters
        program = filters.first_program() if by_level else None
        environment = child_environment(self.folder, Path(plan.kept_caches) if plan.kept_caches else None)
        self._cell = SandboxSpec(
            workdir=str(self.folder),
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
        arguments = self._arguments(filtered and not by_level)
        if plan.level.forks and (
            forked := fork_server().fork(arguments, environment, self.folder, self._channel.descriptors[0])
        ):
            if self._group:
                self._group.take(forked.pid)
            return forked
        start = [sys.executable, "-P", "-u", "-m", "pike.judge.child", self._channel.address]
        argv = plan.level.command(self._cell, [*start, *arguments])
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

    def _arguments(self, filter_itself: bool) -> list[str]:
        """The arguments of `pike.judge.child` after the channel."""
        memory = 0 if self._plan.cuda or self._plan.trusted else self._plan.memory_bytes
        numbers = (memory, _MOST_FILE_BYTES, int(filter_itself), int(not self._plan.trusted))
        confined = filters.confines(self._plan.level, self._plan.cuda) and not self._plan.trusted
        writable = os.pathsep.join(str(folder) for folder in self._written) if confined else ""
        return [self._nonce.hex(), *(str(number) for number in numbers), writable]

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    def send(self, command: Command, body: Any = None, fds: tuple[int, ...] = ()) -> None:
        """Send a command with its pickled body and descriptors that travel with it.

        Raises:
            WireClosed: the child is gone.
        """
        self._seq += 1
        self._channel.send(command, self._seq, body, fds)

    def receive(self, deadline: float, on_wait: Callable[[], float] = lambda: 0.0) -> ChildMessage:
        """The answer to the last command; the arguments are those of `child.wire.receive_up`.

        Raises:
            WireClosed, WireTimeout, WireViolation: see `child.wire`.
        """
        return self._channel.receive(self._nonce, self._seq, deadline, on_wait, lambda: self._process.poll() is None)

    def has_answered(self) -> bool:
        """Whether `receive` would find something at once: an answer, or the end of the child."""
        return self._channel.has_answered()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context in which the child and all its descendants are stopped."""
        self._set_still(True)
        try:
            yield
        finally:
            self._set_still(False)

    def _set_still(self, still: bool) -> None:
        if self._group:
            self._group.freeze(still)
        number = signal.SIGSTOP if still else signal.SIGCONT
        self._signal_group(number)
        if not self._group:
            for pid in self.pids():  # without a filter they may have left the process group
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        """Reach all processes of the child's group at once; a fork under way does not escape."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def confine(self, cpus: frozenset[int]) -> None:
        """Let the kernel keep its whole tree on these CPUs, if it has a control group for that."""
        if self._group:
            self._group.confine(cpus)

    def pids(self) -> set[int]:
        """The child and all its descendants, with orphans that fell to this process."""
        members, strays = self._group.pids() if self._group else set[int](), set[int]()
        if not self._plan.trusted and self._plan.level.inherits:
            strays = processes.strays(self._others | _ours | fork_server().pids)
        roots = {self.pid, *members, *strays, *self._elsewhere()}
        found = roots.union(*(processes.descendants_of(pid) for pid in roots))
        return found if self._plan.level.inherits else _inside(found) or found

    def _elsewhere(self) -> set[int]:
        """The first process of a sandbox that a daemon started, which has no ancestor here."""
        if not self._inmost[0] and self._channel.peer:
            first = processes.first_beside(self._channel.peer)
            self._inmost = (first, processes.started(first)) if _inside({first}) else (0, "")
        pid, since = self._inmost
        return {pid} if since and processes.started(pid) == since else set()

    def _in_memory(self) -> tuple[Path, ...]:
        """The container's `/dev`, which the candidate may write to."""
        return tuple(Path(f"/proc/{pid}/root/dev") for pid in self._elsewhere())

    def end_helpers(self) -> None:
        """Kill every process of its tree but the child itself, for example compile workers."""
        with self.paused():  # a process that stands still does not fork
            filters.end_helpers(self._around, self.pids)

    def speaker(self) -> int:
        """The process that runs the candidate, which may not be the one that was started."""
        return filters.speaker(self._around, self.pids())

    def unsealed(self) -> str:
        """Why the tree of a sealed child could still start processes, empty if it cannot."""
        return filters.missing(self._around, self.pids()) or filters.grows(self.pids)

    @property
    def _around(self) -> filters.Around:
        level = self._plan.level
        return filters.Around(self.pid, Claim.PROCESSES in level.claims, self._channel.peer, level.filters)

    def ending(self) -> str:
        """How the process ended, in words; waits for it shortly."""
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
        self._signal_group(signal.SIGKILL)
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
        """Kill the processes in the level's namespace; the level's own program then cleans up."""
        if inside := _inside(self.pids()):
            for pid in inside:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END_SECONDS)

    def kill(self) -> None:
        """End the child and remove its folder; may be called again."""
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


def _inside(pids: set[int]) -> set[int]:
    """The processes in a PID namespace below this process's own."""
    ours = len(processes.held(os.getpid()).numbers)
    return {pid for pid in pids if len(processes.held(pid).numbers) > ours}


def _group(limits: Limits) -> cgroup.ProcessGroup | None:
    place = cgroup.find()
    name = f"{cgroup.prefix()}{next(_numbers)}"
    with contextlib.suppress(OSError):
        tasks = limits.processes * THREADS_PER_PROCESS
        return cgroup.ProcessGroup(place, name, limits.memory_bytes, tasks) if place else None
    return None
