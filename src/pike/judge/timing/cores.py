"""The CPUs on which the sides of a measurement run, and the check that they stayed there.

The filter disables `sched_setaffinity`, and threads inherit their CPUs, so only the judge changes
them. Does not know what is measured.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pike.core.verdict.evaluation import Status
from pike.judge import processes
from pike.judge.calls.runner import Runner
from pike.judge.refusal import Refused

_MOST_SECONDS = 2.0
_TOPOLOGY = Path("/sys/devices/system/cpu")
_Pids = Callable[[], set[int]]


@dataclass(frozen=True, slots=True)
class CoreShare:
    """The CPUs of each process while something is timed.

    Attributes:
        sides: the CPUs of reference and candidate, which run one after the other.
        judge: the other CPUs, so that a candidate's background threads do not delay the judge. If
            only one other is left, the judge may use all: tied to one CPU, it would wait for other
            programs.
    """

    sides: frozenset[int]
    judge: frozenset[int]


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A context in which torch computes with so many threads in this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def keeping(shared: CoreShare | None, reference: Runner, candidates: Sequence[Runner]) -> Iterator[None]:
    """A context in which judge and sides run on their share of CPUs; None changes nothing.

    Raises:
        Refused: a thread of a candidate's tree left its CPUs.
    """
    if shared is None:
        yield
        return
    before = frozenset(os.sched_getaffinity(0))
    try:
        move(lambda: {os.getpid()}, shared.judge)
        move(reference.child.pids, shared.sides)
        for candidate in candidates:
            move(candidate.child.pids, shared.sides)
            candidate.child.confine(shared.sides)
            _check(candidate, shared.sides)
        yield
        for candidate in candidates:
            _check(candidate, shared.sides)
    finally:
        move(lambda: {os.getpid()}, before)
        move(reference.child.pids, before)


@contextlib.contextmanager
def taking_turns(*sides: Runner) -> Iterator[Callable[[], None]]:
    """A context whose function moves the first threads of all sides to one random CPU.

    Calls of a GPU begin on the host. The CPU of a process, and its neighbours there, can make a
    short call half as long again. So all sides use the same CPU in turn, the judge uses others,
    and the CPU changes from one pair of blocks to the next. Other threads of a candidate stay where
    they are. If the judge has two CPUs or fewer, nothing is moved.
    """
    speakers = [side.child.speaker() for side in sides]
    *before, mine = [_cpus_of(task) for task in (*speakers, 0)]
    common = sorted(frozenset.intersection(*before))
    chance = random.SystemRandom()

    def move_sides() -> None:
        cpu = chance.choice(common)
        for task in speakers:
            with contextlib.suppress(ProcessLookupError):  # it died, as the next call will find out
                os.sched_setaffinity(task, {cpu})
        os.sched_setaffinity(0, mine - {cpu})

    try:
        yield move_sides if len(common) > 1 and len(mine) > 2 else lambda: None
    finally:
        for task, cpus in zip((*speakers, 0), (*before, mine), strict=True):
            with contextlib.suppress(OSError):  # gone, or its CPUs were not known
                os.sched_setaffinity(task, cpus)


def _cpus_of(task: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(task))
    except ProcessLookupError:
        return frozenset()


def share(threads: int, place: int = 0, topology: Path = _TOPOLOGY) -> CoreShare | None:
    """The CPUs for `threads` threads; None for 0 or if the machine has no more.

    Args:
        threads: CPUs of each side.
        place: number of the share, so that each device has its own if there are enough CPUs.
        topology: where the kernel describes its CPUs.
    """
    mine = os.sched_getaffinity(0)
    if not threads or threads >= len(mine):
        return None
    ordered = sorted(mine, key=lambda cpu: (_place_in_core(topology, cpu), cpu))
    first = place % (len(ordered) // threads) * threads
    sides = frozenset(ordered[first : first + threads])
    others = frozenset(mine) - sides
    return CoreShare(sides, others if len(others) > 1 else frozenset(mine))


def move(pids: _Pids, cpus: frozenset[int]) -> None:
    """Put every thread of a tree on these CPUs, also those that begin meanwhile.

    A thread that cannot be moved is left alone: `outside` finds it.
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
    """The first thread of a tree that may run elsewhere, in words; empty if there is none."""
    for pid in pids:
        for task in processes.tasks_of(pid):
            with contextlib.suppress(ProcessLookupError):
                if not os.sched_getaffinity(task) <= cpus:
                    return f"a thread of process {pid} may run on more than the {len(cpus)} CPUs that were given"
    return ""


def _check(candidate: Runner, cpus: frozenset[int]) -> None:
    if problem := outside(candidate.child.pids(), cpus):
        raise Refused(Status.SANDBOX_VIOLATION, problem)


def _place_in_core(topology: Path, cpu: int) -> int:
    """0 for the first hardware thread of a core: whole cores are given before second threads."""
    with contextlib.suppress(OSError, ValueError):
        listed = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text()
        siblings = [int(part) for piece in listed.strip().split(",") for part in piece.split("-")]
        return sum(sibling < cpu for sibling in siblings)
    return 0
