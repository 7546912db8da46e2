"""How fast: interleaved blocks of reference and candidate by the judge's clock, until the interval is tight.

Knows when to stop and which calls are kept for verification. Every call gets fresh inputs; the other side is frozen
while one is timed; the first call of a block warms up and does not count; on a CPU, blocks during which other
programs held the CPU are dropped. Does not know what is right.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.core.evaluation import Effort, Status, Timing
from pike.evaluate.child.wire import Command
from pike.evaluate.contention import ContentionMeter
from pike.evaluate.reference import Inputs
from pike.evaluate.runner import Call, Refused, Runner
from pike.evaluate.stats import Block, Clocks, Ratio, half_spread, median, middle_clocks, net_ns, ratio_of_blocks

_EMPTY_CALLS_PER_BLOCK = 4
_WARM_SECONDS, _WARM_CALLS = 0.3, 5
_BLOCK_SECONDS, _MOST_CALLS_PER_BLOCK = 0.15, 20
_CHILD_DISAGREES, _CHILD_SLACK_NS, _CHILD_SLACK_SPREADS = 0.25, 200_000, 4.0
_LEAST_NS = 500.0
_LEAST_BLOCKS = 3
_CONTENDED = 0.10


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is measured.

    Attributes:
        min_blocks: interleaved pairs of blocks before stopping is allowed.
        min_calls: timed candidate calls before stopping is allowed.
        target_width: relative width of the 95 % interval at which timing stops.
        max_seconds: when timing stops whatever its interval (at least three pairs of blocks are always measured).
        patience_seconds: when timing stops although other programs disturbed too many blocks.
        verified_calls: timed outputs kept for verification, the very last one always among them.
    """

    min_blocks: int
    min_calls: int
    target_width: float
    max_seconds: float
    patience_seconds: float
    verified_calls: int


def plan_for(effort: Effort, max_seconds: float) -> TimingPlan:
    """Cheap while searching, thorough for what is reported."""
    if effort is Effort.SEARCH:
        return TimingPlan(6, 20, 0.03, max_seconds / 2, max_seconds, 3)
    return TimingPlan(12, 50, 0.015, max_seconds, 4 * max_seconds, 8)


@dataclass(frozen=True, slots=True)
class Kept:
    """A timed output to verify later: which inputs (by seed) gave which bytes."""

    seed: int
    snapshot: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Pair:
    """One block of each side with the empty hand-overs before them, and how contended the CPU was meanwhile."""

    empty: list[Clocks]
    reference: list[Clocks]
    candidate: list[Clocks]
    contention: float

    def medians(self) -> Block:
        return Block(middle_clocks(self.empty), middle_clocks(self.reference), middle_clocks(self.candidate))


class Stopwatch:
    """Times a candidate against the reference."""

    def __init__(self, reference: Runner, candidate: Runner, draw: Callable[[int], Inputs], plan: TimingPlan) -> None:
        self._reference, self._candidate = reference, candidate
        self._draw = draw
        self._plan = plan
        self._pairs: list[_Pair] = []
        self.kept: list[Kept] = []
        self._seen = 0
        self._chance = random.SystemRandom()

    def measure(self) -> Timing:
        """Calibrate, warm up, and time until the interval is tight or the time is up.

        Raises:
            Refused: a call failed, or the child's times contradict the judge's clock.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the judge's own threads would compete with the child's
        try:
            calls = max(self._warm_up(self._reference), self._warm_up(self._candidate))
            ratio = self._blocks(calls)
        finally:
            torch.set_num_threads(threads)
            self._reference.child.thaw()
            self._candidate.child.thaw()
        self._check_child()
        return self._timing(ratio)

    def _empty_calls(self) -> list[Clocks]:
        """The hand-over alone, without a model; a few in every block, so that drift is seen."""
        packed = self._reference.stage(self._draw(secrets.randbits(63)))
        calls = [self._reference.call(packed, Command.NULL) for _ in range(_EMPTY_CALLS_PER_BLOCK)]
        return [_clocks(call) for call in calls]

    def _warm_up(self, side: Runner) -> int:
        """Run until warm; returns how many calls fit into one block."""
        started, calls, last = time.monotonic(), 0, 0.0
        while calls < _WARM_CALLS or time.monotonic() - started < _WARM_SECONDS:
            last = self._one(side, keep=False).wall_ns
            calls += 1
            if time.monotonic() - started > self._plan.max_seconds / 4:
                break
        return max(2, min(_MOST_CALLS_PER_BLOCK, int(_BLOCK_SECONDS * 1e9 / max(last, 1.0))))

    def _blocks(self, calls: int) -> Ratio:
        started, order = time.monotonic(), (self._reference, self._candidate)
        meter = ContentionMeter()
        while True:
            empty = self._empty_calls()
            meter.share()
            times = {id(side): self._block(side, calls) for side in order}
            pair = _Pair(empty, times[id(self._reference)], times[id(self._candidate)], meter.share())
            self._pairs.append(pair)
            order = (order[1], order[0])  # ABBA
            clean, elapsed = self._clean(), time.monotonic() - started
            limit = self._plan.max_seconds if len(clean) >= self._plan.min_blocks else self._plan.patience_seconds
            if elapsed > limit and len(self._pairs) >= _LEAST_BLOCKS:
                return self._ratio()
            if len(clean) >= self._plan.min_blocks and calls * len(clean) >= self._plan.min_calls:
                ratio = self._ratio()
                if ratio.relative_width <= self._plan.target_width:
                    return ratio

    def _clean(self) -> list[_Pair]:
        """Pairs that no other program disturbed; on a GPU the host is not what is timed."""
        if self._reference.device.type == "cuda":
            return self._pairs
        return [pair for pair in self._pairs if pair.contention <= _CONTENDED]

    def _counted(self) -> list[_Pair]:
        """The clean pairs, or all of them where too few are clean (the verdict then shows the contention)."""
        clean = self._clean()
        return clean if len(clean) >= _LEAST_BLOCKS else self._pairs

    def _ratio(self) -> Ratio:
        return ratio_of_blocks([pair.medians() for pair in self._counted()], self._resolution_ns())

    def _overhead(self) -> Clocks:
        return middle_clocks([call for pair in self._counted() for call in pair.empty])

    def _resolution_ns(self) -> float:
        """What the hand-over itself varies by: nothing shorter is claimed."""
        return max(half_spread([call.wall_ns for pair in self._counted() for call in pair.empty]), _LEAST_NS)

    def _block(self, side: Runner, calls: int) -> list[Clocks]:
        other = self._candidate if side is self._reference else self._reference
        other.child.freeze()
        try:
            self._one(side, keep=False)
            return [self._one(side, keep=side is self._candidate) for _ in range(calls)]
        finally:
            other.child.thaw()

    def _one(self, side: Runner, keep: bool) -> Clocks:
        seed = secrets.randbits(63)
        packed = side.stage(self._draw(seed))
        call = side.call(packed)
        kept = Kept(seed, side.snapshot())  # on both sides, because copying disturbs the caches
        if keep:
            self._keep(kept)
        return _clocks(call)

    def _keep(self, kept: Kept) -> None:
        """Reservoir sampling, so that every timed call is equally likely to be verified; the last one always is."""
        self._seen += 1
        self._last = kept
        if len(self.kept) < self._plan.verified_calls - 1:
            self.kept.append(kept)
        elif (place := self._chance.randrange(self._seen)) < len(self.kept):
            self.kept[place] = kept

    def _check_child(self) -> None:
        """An alarm, not a measurement: a child whose clock runs slow is not worth listening to.

        Silent where other programs held the CPU: there, waking up takes the judge longer than the child.
        """
        if self._last not in self.kept:
            self.kept.append(self._last)
        if median([pair.contention for pair in self._counted()]) > _CONTENDED:
            return
        calls = middle_clocks([call for pair in self._counted() for call in pair.candidate])
        empty = self._overhead()
        wall_ns = calls.wall_ns - empty.wall_ns
        gap = wall_ns - (calls.child_ns - empty.child_ns)
        slack = max(_CHILD_DISAGREES * wall_ns, _CHILD_SLACK_NS, _CHILD_SLACK_SPREADS * self._resolution_ns())
        if abs(gap) > slack:
            raise Refused(
                Status.UNTRUSTED_TIMING,
                f"the child's own clock differs from the judge's by {gap / 1e6:.3g} ms a call",
            )

    def _timing(self, ratio: Ratio) -> Timing:
        counted, empty, resolution = self._counted(), self._overhead(), self._resolution_ns()
        reference = middle_clocks([call for pair in counted for call in pair.reference])
        candidate = [call for pair in counted for call in pair.candidate]
        return Timing(
            reference_ms=net_ns(reference, empty, resolution) / 1e6,
            candidate_ms=net_ns(middle_clocks(candidate), empty, resolution) / 1e6,
            speedup=ratio.value,
            speedup_ci95=(ratio.low, ratio.high),
            blocks=len(counted),
            calls=len(candidate),
            overhead_ms=empty.wall_ns / 1e6,
            dropped_blocks=len(self._pairs) - len(counted),
            contention=median([pair.contention for pair in counted]),
        )


def _clocks(call: Call) -> Clocks:
    return Clocks(float(call.wall_ns), float(call.child_ns))
