"""Which CPUs both sides of a measurement run on, and the kernel's word that they stayed there.

Knows how many CPUs are shared out and how a tree of processes is put on some of them. The candidate's filter makes
`sched_setaffinity` do nothing, and threads inherit their CPUs, so what the judge sets holds until the judge changes it.
Does not know what is measured.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pike.core.evaluation import Status
from pike.evaluate import processes
from pike.evaluate.refusal import Refused
from pike.evaluate.runner import Runner

_MOST_SECONDS = 2.0
_Pids = Callable[[], set[int]]


@dataclass(frozen=True, slots=True)
class Share:
    """Who runs where while something is timed.

    Attributes:
        sides: the CPUs of reference and candidate, which run one after the other.
        judge: those of the judge: the others, so that nothing a candidate leaves running stands in its way. Where only
            one other is left it may use all: tied to one CPU, it waits for whoever else is there (measured on two).
    """

    sides: frozenset[int]
    judge: frozenset[int]


@contextlib.contextmanager
def keeping(shared: Share | None, reference: Runner, candidate: Runner) -> Iterator[None]:
    """While inside, everybody runs where the share says; None changes nothing.

    Raises:
        Refused: a thread of the candidate's tree is not, or did not stay, where it was put.
    """
    if shared is None:
        yield
        return
    before = frozenset(os.sched_getaffinity(0))
    try:
        move(lambda: {os.getpid()}, shared.judge)
        move(reference.child.pids, shared.sides)
        move(candidate.child.pids, shared.sides)
        candidate.child.confine(shared.sides)
        _check(candidate, shared.sides)
        yield
        _check(candidate, shared.sides)
    finally:
        move(lambda: {os.getpid()}, before)
        move(reference.child.pids, before)


@contextlib.contextmanager
def seating(reference: Runner, candidate: Runner) -> Iterator[Callable[[], None]]:
    """While inside, each call of what is given puts the first threads of both sides on one CPU, drawn anew.

    For a GPU, whose calls begin on the host: which CPU a process happens to be on, and what its neighbours do, can make
    a short call half as long again, for as long as the process stays there. So both sides sit on the same CPU in turn,
    the judge on others, and the CPUs change from one pair of blocks to the next. Threads that a candidate began
    earlier run wherever they did. Where the judge has two CPUs or fewer, nobody is moved.
    """
    speakers = [side.child.speaker() for side in (reference, candidate)]
    before = [_cpus_of(task) for task in (*speakers, 0)]
    common = sorted(before[0] & before[1])
    chance = random.SystemRandom()

    def sit() -> None:
        seat = chance.choice(common)
        for task in speakers:
            with contextlib.suppress(ProcessLookupError):  # the next call finds out that it died, and says how
                os.sched_setaffinity(task, {seat})
        os.sched_setaffinity(0, before[2] - {seat})

    try:
        yield sit if len(common) > 1 and len(before[2]) > 2 else lambda: None
    finally:
        for task, cpus in zip((*speakers, 0), before, strict=True):
            with contextlib.suppress(OSError):  # gone, or its CPUs were not known
                os.sched_setaffinity(task, cpus)


def _cpus_of(task: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(task))
    except ProcessLookupError:
        return frozenset()


def share(threads: int, place: int = 0) -> Share | None:
    """The CPUs for `threads` threads, None where these are all that there are (or 0, which means all).

    Args:
        threads: CPUs of each side.
        place: which of several shares, so that each device has its own where there is room.
    """
    mine = os.sched_getaffinity(0)
    if not threads or threads >= len(mine):
        return None
    ordered = sorted(mine, key=lambda cpu: (_place_in_core(cpu), cpu))
    first = place * threads if (place + 1) * threads <= len(ordered) else 0
    sides = frozenset(ordered[first : first + threads])
    others = frozenset(mine) - sides
    return Share(sides, others if len(others) > 1 else frozenset(mine))


def move(pids: _Pids, cpus: frozenset[int]) -> None:
    """Put every thread of a tree on these CPUs, those that begin meanwhile too.

    A thread that is gone, or may not be moved, is left alone: `outside` tells.
    """
    deadline, moved = time.monotonic() + _MOST_SECONDS, set[int]()
    while tasks := {task for pid in pids() for task in processes.tasks_of(pid)} - moved:
        for task in tasks:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(task, cpus)
        moved |= tasks
        if time.monotonic() > deadline:
            return


def outside(pids: set[int], cpus: frozenset[int]) -> str:
    """Which thread of a tree may run elsewhere, in words; empty if none may."""
    for pid in pids:
        for task in processes.tasks_of(pid):
            with contextlib.suppress(ProcessLookupError):
                if not os.sched_getaffinity(task) <= cpus:
                    return f"a thread of process {pid} may run on more than the {len(cpus)} CPUs that were given"
    return ""


def _check(candidate: Runner, cpus: frozenset[int]) -> None:
    if problem := outside(candidate.child.pids(), cpus):
        raise Refused(Status.SANDBOX_VIOLATION, problem)


def _place_in_core(cpu: int) -> int:
    """0 for the first hardware thread of a core: whole cores are given before any second thread."""
    with contextlib.suppress(OSError, ValueError):
        listed = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        siblings = [int(part) for piece in listed.strip().split(",") for part in piece.split("-")]
        return sum(sibling < cpu for sibling in siblings)
    return 0
