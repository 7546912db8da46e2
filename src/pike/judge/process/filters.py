"""Whether the system call filters hold, as the kernel says; and what nothing enforces.

Knows which processes of a child's tree are helpers. Does not install anything.
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from pike.judge import processes
from pike.judge.child import guard, seccomp
from pike.judge.process import cgroup
from pike.judge.sandbox import Claim, SandboxLevel

_GONE_SECONDS = 10.0
_GROWING_SECONDS = 0.02


@functools.cache
def work() -> bool:
    """Whether this machine lets a process filter its own system calls; tried once."""
    if not seccomp.supported():
        return False
    done = subprocess.run([sys.executable, "-I", "-S", seccomp.__file__], capture_output=True, check=False)
    return done.returncode == 0


def confines(level: SandboxLevel, cuda: bool) -> bool:
    """Whether a candidate's child is confined by Landlock; on a GPU no driver was seen to work so."""
    return level.forks and not cuda and guard.confines()


def enforced(level: SandboxLevel, cuda: bool) -> frozenset[Claim]:
    """What holds for a candidate's child on this machine, whether the level does it or not."""
    network = {Claim.NETWORK} if work() else set[Claim]()  # the filter allows local sockets only
    return level.claims | network | ({Claim.READ_ONLY, Claim.SIGNALS} if confines(level, cuda) else set())


def not_enforced(level: SandboxLevel, cuda: bool) -> str:
    """What nothing on this machine enforces for a child, for verdicts and `pike doctor`."""
    gaps = [claim.value for claim in Claim if claim not in enforced(level, cuda)]
    if confines(level, cuda):
        gaps.append("what it leaves in /dev/shm")
    if not work():
        gaps.append("system calls and starting programs while being timed")
    place = cgroup.find()
    if not work() and not (place and place.cpus):
        gaps.append("keeping to `evaluate.threads` CPUs")
    if place is None or not place.memory:
        gaps.append("memory between two samples")
    if place is None or not place.tasks:
        gaps.append("number of processes between two samples")
    return ", ".join(gaps)


def first_program(guarded: tuple[int, ...] = ()) -> int:
    """A descriptor of the first filter, for a level that installs it; the caller closes it."""
    fd = os.memfd_create("pike-filter")
    os.write(fd, seccomp.from_the_start(guarded))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@dataclass(frozen=True, slots=True)
class Around:
    """How a level wraps a child.

    Attributes:
        root: the process that was started; the level's own program if it wraps the child.
        wrapped: whether the level puts the child into a PID namespace of its own.
        child: the child's process, if the kernel told it. Otherwise 0: it is the started process,
            or the second one of its namespace.
        filtered: whether the level installs the first filter, so that its own process carries it
            too.
    """

    root: int
    wrapped: bool
    child: int = 0
    filtered: bool = True

    def is_child(self, pid: int, how: processes.HeldThread) -> bool:
        """Whether a process is the one that talks to the judge."""
        if self.child:
            return pid == self.child
        return pid != self.root and how.numbers[-1] == 2 if self.wrapped else pid == self.root

    def is_levels_own(self, pid: int, how: processes.HeldThread) -> bool:
        """Whether a process is the level's: the started one, or the namespace's first."""
        return self.wrapped and (pid == self.root or how.numbers[-1] == 1)


def end_helpers(around: Around, pids: Callable[[], set[int]]) -> None:
    """Kill every process of a child's tree but the child and the level's own, and wait for that."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (helpers := _helpers(around, pids())) and time.monotonic() < deadline:
        for pid in helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def missing(around: Around, pids: set[int]) -> str:
    """The first thread of a sealed child's tree without a filter, in words; empty if there is none.

    From Linux 6.11 on, an ending thread gives its filters back before it is seen to be dead, and on a
    busy machine that takes seconds. It runs nothing of its own again, so it is not counted.
    """
    ours = max(processes.held(os.getpid()).filters, 0)
    for pid in pids:
        own = around.is_levels_own(pid, processes.held(pid))
        for task in processes.tasks_of(pid):
            how = processes.held(pid, task)
            if not how.alive or how.filters < 0 or (own and pid == around.root):
                continue
            if how.filters < ours + (int(around.filtered) if own else 2) and not processes.ends(pid, task):
                return f"a thread of process {how.numbers[-1]} runs without the system call filter"
    return ""


def grows(pids: Callable[[], set[int]]) -> str:
    """That a sealed tree still gains processes, in words; empty if it does not.

    A process that forks and ends within a millisecond is rarely alive when it is looked at, but its
    children have new numbers.
    """
    before = pids()
    time.sleep(_GROWING_SECONDS)
    new = pids() - before
    return f"process {min(new)} was started by a helper that could not be ended" if new else ""


def speaker(around: Around, pids: set[int]) -> int:
    """The process of the tree `pids` that talks to the judge."""
    return next((pid for pid in pids if around.is_child(pid, processes.held(pid))), around.root)


def _helpers(around: Around, pids: set[int]) -> list[int]:
    found = [(pid, processes.held(pid)) for pid in pids]
    return [
        pid for pid, how in found if how.alive and not around.is_child(pid, how) and not around.is_levels_own(pid, how)
    ]
