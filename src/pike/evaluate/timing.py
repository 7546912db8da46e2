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
from dataclasses import dataclass, field

import torch

from pike.core.evaluation import Effort, Status, Timing
from pike.evaluate.child.wire import Command
from pike.evaluate.contention import ContentionMeter
from pike.evaluate.reference import Inputs
from pike.evaluate.runner import Refused, Runner
from pike.evaluate.stats import Ratio, median, ratio_of_blocks

_EMPTY_CALLS_PER_BLOCK = 4
_WARM_SECONDS, _WARM_CALLS = 0.3, 5
_BLOCK_SECONDS, _MOST_CALLS_PER_BLOCK = 0.15, 20
_CHILD_DISAGREES, _CHILD_SLACK_NS = 0.25, 200_000
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
    """One block of each side, wall nanoseconds of their calls, and how contended the CPU was meanwhile."""

    reference_ns: list[float]
    candidate_ns: list[float]
    contention: float


@dataclass
class _Side:
    runner: Runner
    child_ns: list[float] = field(default_factory=list)


class Stopwatch:
    """Times a candidate against the reference."""

    def __init__(self, reference: Runner, candidate: Runner, draw: Callable[[int], Inputs], plan: TimingPlan) -> None:
        self._reference, self._candidate = _Side(reference), _Side(candidate)
        self._draw = draw
        self._plan = plan
        self._empty_ns: list[float] = []
        self._empty_child_ns: list[float] = []
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
            self._reference.runner.child.thaw()
            self._candidate.runner.child.thaw()
        self._check_child()
        return self._timing(ratio)

    @property
    def _overhead_ns(self) -> float:
        """The hand-over alone: the median of all empty calls so far, which are spread over the blocks."""
        return median(self._empty_ns)

    def _calibrate(self) -> None:
        runner = self._reference.runner
        packed = runner.stage(self._draw(secrets.randbits(63)))
        calls = [runner.call(packed, Command.NULL) for _ in range(_EMPTY_CALLS_PER_BLOCK)]
        self._empty_ns += [float(call.wall_ns) for call in calls]
        self._empty_child_ns += [float(call.child_ns) for call in calls]

    def _warm_up(self, side: _Side) -> int:
        """Run until warm; returns how many calls fit into one block."""
        started, calls, last = time.monotonic(), 0, 0.0
        while calls < _WARM_CALLS or time.monotonic() - started < _WARM_SECONDS:
            last = self._one(side, keep=False)
            calls += 1
            if time.monotonic() - started > self._plan.max_seconds / 4:
                break
        return max(2, min(_MOST_CALLS_PER_BLOCK, int(_BLOCK_SECONDS * 1e9 / max(last, 1.0))))

    def _blocks(self, calls: int) -> Ratio:
        started, order = time.monotonic(), (self._reference, self._candidate)
        meter = ContentionMeter()
        while True:
            self._calibrate()
            meter.share()
            times = {id(side): self._block(side, calls) for side in order}
            self._pairs.append(_Pair(times[id(self._reference)], times[id(self._candidate)], meter.share()))
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
        if self._reference.runner.device.type == "cuda":
            return self._pairs
        return [pair for pair in self._pairs if pair.contention <= _CONTENDED]

    def _counted(self) -> list[_Pair]:
        """The clean pairs, or all of them where too few are clean (the verdict then shows the contention)."""
        clean = self._clean()
        return clean if len(clean) >= _LEAST_BLOCKS else self._pairs

    def _ratio(self) -> Ratio:
        counted = self._counted()
        return ratio_of_blocks(
            [self._net(median(pair.reference_ns)) for pair in counted],
            [self._net(median(pair.candidate_ns)) for pair in counted],
        )

    def _block(self, side: _Side, calls: int) -> list[float]:
        other = self._candidate if side is self._reference else self._reference
        other.runner.child.freeze()
        try:
            self._one(side, keep=False)
            return [self._one(side, keep=side is self._candidate) for _ in range(calls)]
        finally:
            other.runner.child.thaw()

    def _net(self, wall_ns: float) -> float:
        return max(wall_ns - self._overhead_ns, _LEAST_NS)

    def _one(self, side: _Side, keep: bool) -> float:
        seed = secrets.randbits(63)
        packed = side.runner.stage(self._draw(seed))
        call = side.runner.call(packed)
        kept = Kept(seed, side.runner.snapshot())  # on both sides, because copying disturbs the caches
        if keep:
            side.child_ns.append(float(call.child_ns))
            self._keep(kept)
        return float(call.wall_ns)

    def _keep(self, kept: Kept) -> None:
        """Reservoir sampling, so that every timed call is equally likely to be verified; the last one always is."""
        self._seen += 1
        self._last = kept
        if len(self.kept) < self._plan.verified_calls - 1:
            self.kept.append(kept)
        elif (place := self._chance.randrange(self._seen)) < len(self.kept):
            self.kept[place] = kept

    def _check_child(self) -> None:
        if self._last not in self.kept:
            self.kept.append(self._last)
        candidate_ns = self._net(median([ns for pair in self._pairs for ns in pair.candidate_ns]))
        gap = candidate_ns - (median(self._candidate.child_ns) - median(self._empty_child_ns))
        if abs(gap) > max(_CHILD_DISAGREES * candidate_ns, _CHILD_SLACK_NS):
            raise Refused(
                Status.UNTRUSTED_TIMING,
                f"the child's own clock differs from the judge's by {gap / 1e6:.3g} ms a call",
            )
        if candidate_ns <= _LEAST_NS:
            raise Refused(
                Status.UNTRUSTED_TIMING,
                "the candidate takes no longer than handing over buffers without running a model",
            )

    def _timing(self, ratio: Ratio) -> Timing:
        counted = self._counted()
        candidate = [ns for pair in counted for ns in pair.candidate_ns]
        return Timing(
            reference_ms=self._net(median([ns for pair in counted for ns in pair.reference_ns])) / 1e6,
            candidate_ms=self._net(median(candidate)) / 1e6,
            speedup=ratio.value,
            speedup_ci95=(ratio.low, ratio.high),
            blocks=len(counted),
            calls=len(candidate),
            overhead_ms=self._overhead_ns / 1e6,
            dropped_blocks=len(self._pairs) - len(counted),
            contention=median([pair.contention for pair in counted]),
        )
