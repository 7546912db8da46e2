"""Whether the system call filters hold, asked of the kernel and never of the child.

Knows how many filters each thread of a child must carry once it is sealed, and which processes of its tree are its
helpers. Does not install anything.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from pike.evaluate import processes
from pike.evaluate.child import seccomp

_GONE_SECONDS = 10.0
_ENDING_SECONDS = 1.0


@functools.cache
def work() -> bool:
    """Whether this machine lets a process filter its own system calls (tried once in a process of its own)."""
    if not seccomp.supported():
        return False
    done = subprocess.run([sys.executable, "-I", "-S", seccomp.__file__], capture_output=True, check=False)
    return done.returncode == 0


def first_program(guarded: tuple[int, ...] = ()) -> int:
    """A descriptor of the first phase's program, for a level that installs it itself; the caller closes it."""
    fd = os.memfd_create("pike-filter")
    os.write(fd, seccomp.from_the_start(guarded))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@dataclass(frozen=True, slots=True)
class Around:
    """How a level wraps a child.

    Attributes:
        root: the process that was started for the child (the level's own program where it wraps).
        wrapped: whether the level puts the child into a PID namespace of its own.
        child: the child's process, where the kernel told it (0: the first one, or the second one of its namespace).
        filtered: whether the level installs the first filter, so that its own process inside carries it too.
    """

    root: int
    wrapped: bool
    child: int = 0
    filtered: bool = True

    def is_child(self, pid: int, how: processes.Held) -> bool:
        """Whether a process is the one that talks to the judge."""
        if self.child:
            return pid == self.child
        return pid != self.root and how.numbers[-1] == 2 if self.wrapped else pid == self.root

    def is_levels_own(self, pid: int, how: processes.Held) -> bool:
        """Whether it is the level's: the one started, or the first one of the child's namespace."""
        return self.wrapped and (pid == self.root or how.numbers[-1] == 1)


def end_helpers(around: Around, pids: Callable[[], set[int]]) -> None:
    """Kill every process of a child's tree but the child itself and what the level put around it, and see them gone."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (helpers := _helpers(around, pids())) and time.monotonic() < deadline:
        for pid in helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def missing(around: Around, pids: Callable[[], set[int]]) -> str:
    """Which thread of a sealed child's tree lacks a filter, in words; empty once a look finds that all hold.

    A thread that is ending has given its filters back before it is seen to be dead (Linux 6.11 and later), so the tree
    is looked at again for a moment; one that goes on running without them stays missing.

    Args:
        around: how the level wraps the child.
        pids: the whole tree as it is now.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while (problem := _lacking(around, pids())) and time.monotonic() < deadline:
        time.sleep(0.002)
    return problem


def _lacking(around: Around, pids: set[int]) -> str:
    ours = max(processes.held(os.getpid()).filters, 0)
    for pid in pids:
        own = around.is_levels_own(pid, processes.held(pid))
        for task in processes.tasks_of(pid):
            how = processes.held(pid, task)
            if not how.alive or how.filters < 0 or (own and pid == around.root):
                continue
            if how.filters < ours + (int(around.filtered) if own else 2):
                return f"a thread of process {how.numbers[-1]} runs without the system call filter"
    return ""


def speaker(around: Around, pids: set[int]) -> int:
    """The process of the tree `pids` that talks to the judge."""
    return next((pid for pid in pids if around.is_child(pid, processes.held(pid))), around.root)


def _helpers(around: Around, pids: set[int]) -> list[int]:
    found = [(pid, processes.held(pid)) for pid in pids]
    return [
        pid for pid, how in found if how.alive and not around.is_child(pid, how) and not around.is_levels_own(pid, how)
    ]
