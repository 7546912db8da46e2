"""One timing session: interleaved blocks of reference and candidate by the judge's clock, until the interval is tight.

Knows when to stop and which calls are kept for verification. Every call gets fresh inputs; the other side is frozen
while one is timed; the first call of a block warms up and does not count; pairs of blocks during which other programs
held the CPU, or a GPU did not keep its clocks, are dropped. Does not know what is right, nor what a session is for.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

from pike.core.evaluation import CONTENDED, DeviceState
from pike.evaluate import cores, processes
from pike.evaluate.child.wire import Command
from pike.evaluate.contention import Contention, ContentionMeter
from pike.evaluate.devicestate import DeviceReader, PairState, Reading, spoiled, summary
from pike.evaluate.reference import Inputs
from pike.evaluate.runner import Call, Runner
from pike.evaluate.stats import Block, Clocks, Ratio, half_spread, median, middle_clocks, net_ns, ratio_of_blocks

_EMPTY_CALLS_PER_BLOCK = 4
_WARM_SECONDS, _WARM_CALLS = 0.1, 5
_BLOCK_SECONDS, _MOST_CALLS_PER_BLOCK = 0.15, 10
_LEAST_NS = 500.0
_LEAST_BLOCKS = 3
_BEATEN_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Sides:
    """What is timed against what.

    Attributes:
        reference: the reference's child.
        candidate: the candidate's.
        draw: inputs from a seed.
        reader: tells the state of a GPU, None where nothing does.
    """

    reference: Runner
    candidate: Runner
    draw: Callable[[int], Inputs]
    reader: DeviceReader | None = None


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """How much is measured.

    Attributes:
        min_blocks: interleaved pairs of blocks before stopping is allowed.
        min_calls: timed candidate calls before stopping is allowed.
        target_width: relative width of the 95 % interval at which timing stops.
        max_seconds: when timing stops whatever its interval (at least three pairs of blocks are always measured).
        patience_seconds: when timing stops although other programs disturbed too many blocks.
        inputs: how many inputs each call releases together.
        beat: timing also stops once the whole interval lies below this speedup.
    """

    min_blocks: int
    min_calls: int
    target_width: float
    max_seconds: float
    patience_seconds: float
    inputs: int = 1
    beat: float = 0.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A timed output to verify later: which inputs (by seed) gave which bytes."""

    seed: int
    snapshot: torch.Tensor


class Reservoir:
    """A few of the timed outputs: each is equally likely to be kept, and the very last one always is.

    So is the fastest one of some block: a shortcut that gains anything is faster than what it is mixed with.
    """

    def __init__(self, size: int) -> None:
        self._size, self._seen, self._blocks = size, 0, 0
        self._fastest: list[Kept] = []
        self._kept: list[Kept] = []
        self._last: list[Kept] = []
        self._chance = random.SystemRandom()

    def offer(self, kept: Kept) -> None:
        """One more timed output."""
        self._seen += 1
        self._last = [kept]
        if len(self._kept) < self._size - 1:
            self._kept.append(kept)
        elif (place := self._chance.randrange(self._seen)) < len(self._kept):
            self._kept[place] = kept

    def offer_fastest(self, kept: Kept) -> None:
        """The fastest timed output of one more block."""
        self._blocks += 1
        if not self._chance.randrange(self._blocks):
            self._fastest = [kept]

    def all(self) -> list[Kept]:
        """What is to be verified."""
        seeds = [kept.seed for kept in self._kept]
        extra = {kept.seed: kept for kept in (*self._fastest, *self._last) if kept.seed not in seeds}
        return [*self._kept, *extra.values()]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One block of each side with the empty hand-overs before them, the medians of all three, how contended the CPU was
    meanwhile, and in what state a GPU was at the end of each."""

    empty: list[Clocks]
    reference: list[Clocks]
    candidate: list[Clocks]
    medians: Block
    contention: Contention
    state: PairState | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a session found; nanoseconds are of one call, however many inputs it released.

    Attributes:
        ratio: reference over candidate.
        reference: medians of the reference's clocks, hand-over included.
        reference_ns: median net time of the reference.
        candidate: medians of the candidate's clocks, hand-over included.
        candidate_ns: median net time of the candidate.
        empty: medians of the empty hand-overs.
        resolution_ns: nothing shorter is claimed.
        blocks: pairs of blocks that count.
        dropped_blocks: pairs that do not.
        calls: timed candidate calls that count.
        contention: share of the time in which other programs kept what is timed waiting for a CPU, median over the
            blocks that count.
        delayed: share of the time in which somebody waited for a CPU, whoever held it, median over the same blocks.
        state: of a GPU, None where nothing tells it.
    """

    ratio: Ratio
    reference: Clocks
    reference_ns: float
    candidate: Clocks
    candidate_ns: float
    empty: Clocks
    resolution_ns: float
    blocks: int
    dropped_blocks: int
    calls: int
    contention: float
    delayed: float
    state: DeviceState | None


@contextmanager
def standing_still(*sides: Runner) -> Iterator[None]:
    """While inside, the children of these sides do not run."""
    for side in sides:
        side.child.freeze()
    try:
        yield
    finally:
        for side in sides:
            side.child.thaw()


class Session:
    """Times a candidate against the reference under one plan."""

    def __init__(self, sides: Sides, plan: SessionPlan, reservoir: Reservoir) -> None:
        self._reference, self._candidate = sides.reference, sides.candidate
        self._draw, self._reader = sides.draw, sides.reader
        self._plan, self._reservoir = plan, reservoir
        self._pairs: list[_Pair] = []
        self._quickest: list[tuple[int, Kept]] = []

    def run(self) -> Measured:
        """Warm up and time until the interval is tight, the candidate is beaten or the time is up.

        Raises:
            Refused: a call failed.
        """
        on_gpu = self._reference.device.type == "cuda"
        with cores.seating(self._reference, self._candidate) if on_gpu else nullcontext(_anywhere) as sit:
            sit()
            calls = max(self._warm_up(self._reference), self._warm_up(self._candidate))
            started, order = time.monotonic(), (self._reference, self._candidate)
            meter = ContentionMeter(self._ours(), {os.getpid(), *self._sides()})
            while True:
                sit()
                self._pairs.append(self._pair(order, calls, meter))
                order = (order[1], order[0])  # ABBA
                if self._enough(calls, time.monotonic() - started):
                    return self._measured()

    def _ours(self) -> set[int]:
        """This process, what descends from it, and both children wherever they descend from."""
        return {os.getpid()}.union(processes.descendants_of(os.getpid()), self._sides())

    def _sides(self) -> set[int]:
        """The processes of both children."""
        return self._reference.child.pids() | self._candidate.child.pids()

    def _pair(self, order: tuple[Runner, Runner], calls: int, meter: ContentionMeter) -> _Pair:
        empty = self._empty_calls()
        meter.read()
        found = {id(side): self._block(side, calls) for side in order}
        ours, theirs = found[id(self._reference)], found[id(self._candidate)]
        contention = meter.read()
        state = PairState(ours[1], theirs[1]) if ours[1] and theirs[1] else None
        medians = Block(middle_clocks(empty), middle_clocks(ours[0]), middle_clocks(theirs[0]))
        return _Pair(empty, ours[0], theirs[0], medians, contention, state)

    def _warm_up(self, side: Runner) -> int:
        """Run until warm; returns how many calls fit into one block."""
        started, calls, last = time.monotonic(), 0, 0.0
        while calls < _WARM_CALLS or time.monotonic() - started < _WARM_SECONDS:
            last = self._one(side, keep=False).wall_ns
            calls += 1
            if time.monotonic() - started > self._plan.max_seconds / 4:
                break
        return max(2, min(_MOST_CALLS_PER_BLOCK, int(_BLOCK_SECONDS * 1e9 / max(last, 1.0))))

    def _enough(self, calls: int, elapsed_seconds: float) -> bool:
        plan, clean = self._plan, len(self._clean())
        limit = plan.max_seconds if clean >= plan.min_blocks else plan.patience_seconds
        if elapsed_seconds > limit and len(self._pairs) >= _LEAST_BLOCKS:
            return True
        if plan.beat and clean >= _BEATEN_BLOCKS and self._ratio().high < plan.beat:
            return True
        tried = clean >= plan.min_blocks and calls * clean >= plan.min_calls
        return tried and self._ratio().relative_width <= plan.target_width

    def _clean(self) -> list[_Pair]:
        """Pairs that no other program disturbed; on a GPU, where the host is not what is timed, unspoiled ones."""
        if self._reference.device.type == "cuda":
            why = spoiled([pair.state for pair in self._pairs])
            return [pair for pair, reason in zip(self._pairs, why, strict=True) if not reason]
        return [pair for pair in self._pairs if pair.contention.share <= CONTENDED]

    def _counted(self) -> list[_Pair]:
        """The clean pairs, or all of them where too few are clean (the verdict then shows what disturbed them)."""
        clean = self._clean()
        return clean if len(clean) >= _LEAST_BLOCKS else self._pairs

    def _ratio(self) -> Ratio:
        return ratio_of_blocks([pair.medians for pair in self._counted()], self._resolution_ns())

    def _resolution_ns(self) -> float:
        """What the hand-over itself varies by: nothing shorter is claimed."""
        return max(half_spread([call.wall_ns for pair in self._counted() for call in pair.empty]), _LEAST_NS)

    def _measured(self) -> Measured:
        counted, resolution = self._counted(), self._resolution_ns()
        empty = middle_clocks([call for pair in counted for call in pair.empty])
        reference = middle_clocks([call for pair in counted for call in pair.reference])
        calls = [call for pair in counted for call in pair.candidate]
        candidate = middle_clocks(calls)
        return Measured(
            ratio=self._ratio(),
            reference=reference,
            reference_ns=net_ns(reference, empty, resolution),
            candidate=candidate,
            candidate_ns=net_ns(candidate, empty, resolution),
            empty=empty,
            resolution_ns=resolution,
            blocks=len(counted),
            dropped_blocks=len(self._pairs) - len(counted),
            calls=len(calls),
            contention=median([pair.contention.share for pair in counted]),
            delayed=median([pair.contention.delayed for pair in counted]),
            state=summary([pair.state for pair in counted], [pair.state for pair in self._pairs]),
        )

    def _empty_calls(self) -> list[Clocks]:
        """The hand-over alone, without a model; a few in every block, so that drift is seen."""
        packed = self._reference.stage(*self._fresh()[1])
        calls = [self._reference.call(packed, Command.NULL) for _ in range(_EMPTY_CALLS_PER_BLOCK)]
        return [_clocks(call) for call in calls]

    def _block(self, side: Runner, calls: int) -> tuple[list[Clocks], Reading | None]:
        """The clocks of the calls, and the state of a GPU right after the last one, before it can rest."""
        other = self._candidate if side is self._reference else self._reference
        with standing_still(other):
            self._one(side, keep=False)
            self._quickest.clear()
            clocks = [self._one(side, keep=side is self._candidate) for _ in range(calls)]
            if side is self._candidate and self._quickest:
                self._reservoir.offer_fastest(self._quickest[0][1])
            return clocks, self._reader.read() if self._reader is not None else None

    def _one(self, side: Runner, keep: bool) -> Clocks:
        seeds, inputs = self._fresh()
        call = side.call(side.stage(*inputs))
        snapshots = side.snapshots()  # on both sides, because copying disturbs the caches
        if keep:
            for seed, snapshot in zip(seeds, snapshots, strict=True):
                self._reservoir.offer(Kept(seed, snapshot))
            if not self._quickest or call.wall_ns < self._quickest[0][0]:
                self._quickest = [(call.wall_ns, Kept(seeds[0], snapshots[0]))]
        return _clocks(call)

    def _fresh(self) -> tuple[list[int], list[Inputs]]:
        seeds = [secrets.randbits(63) for _ in range(self._plan.inputs)]
        return seeds, [self._draw(seed) for seed in seeds]


def _anywhere() -> None:
    """On a CPU all sides run where the system puts them: their threads are what is timed."""


def _clocks(call: Call) -> Clocks:
    return Clocks(float(call.wall_ns), float(call.child_ns))
