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

from pike.evaluate import processes
from pike.evaluate.child import seccomp

_GONE_SECONDS = 10.0


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


def end_helpers(root: int, pids: Callable[[], set[int]], wrapped: bool) -> None:
    """Kill every process of a child's tree but the child itself and what the level put around it, and see them gone."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (helpers := _helpers(root, pids(), wrapped)) and time.monotonic() < deadline:
        for pid in helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def missing(root: int, pids: set[int], wrapped: bool) -> str:
    """Which thread of a sealed child's tree lacks a filter, in words; empty if all hold.

    Args:
        root: the process that was started for the child (the level's own program where it wraps).
        pids: the whole tree.
        wrapped: whether the level puts the child into a PID namespace of its own.
    """
    ours = max(processes.held(os.getpid()).filters, 0)
    for pid in pids:
        for task in processes.tasks_of(pid):
            how = processes.held(pid, task)
            around = _is_around(root, pid, how, wrapped)
            if not how.alive or how.filters < 0 or (around and pid == root):
                continue
            if how.filters < ours + (1 if around else 2):
                return f"a thread of process {how.numbers[-1]} runs without the system call filter"
    return ""


def speaker(root: int, pids: set[int], wrapped: bool) -> int:
    """The process that talks to the judge, inside whatever the level put around it; the arguments are `missing`'s."""
    return next((pid for pid in pids if _is_child(root, pid, processes.held(pid), wrapped)), root)


def _helpers(root: int, pids: set[int], wrapped: bool) -> list[int]:
    found = [(pid, processes.held(pid)) for pid in pids]
    return [
        pid
        for pid, how in found
        if how.alive and not _is_child(root, pid, how, wrapped) and not _is_around(root, pid, how, wrapped)
    ]


def _is_child(root: int, pid: int, how: processes.Held, wrapped: bool) -> bool:
    """The process that talks to the judge: the one started, or the second one of its own namespace."""
    return pid != root and how.numbers[-1] == 2 if wrapped else pid == root


def _is_around(root: int, pid: int, how: processes.Held, wrapped: bool) -> bool:
    """The level's own processes: the one started, and the first one of the child's namespace."""
    return wrapped and (pid == root or how.numbers[-1] == 1)
