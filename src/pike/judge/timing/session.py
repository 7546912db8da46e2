"""One timing session: interleaved blocks of reference and candidates until the intervals are tight.

Every call gets fresh inputs, and the other sides are paused meanwhile. The first call of a block
does not count. Pairs are dropped if other programs held the CPU, or if a GPU changed its clocks.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from pike.core.verdict.evaluation import CONTENDED, Timing
from pike.judge import processes
from pike.judge.calls.runner import CallTimes, Runner
from pike.judge.child.wire import Command
from pike.judge.reference.reference import Inputs
from pike.judge.timing import cores
from pike.judge.timing.contention import Contention, ContentionMeter
from pike.judge.timing.device_state import PairState, Reading, spoiled, summary
from pike.judge.timing.reservoir import Reservoir, TimedOutput
from pike.judge.timing.stats import (
    Ratio,
    TimingBlock,
    between_sessions,
    certain,
    doubted,
    half_spread,
    median,
    middle_clocks,
    net_ns,
    ratio_of_blocks,
)

_EMPTY_CALLS_PER_BLOCK = 4
_MOST_CALLS_PER_BLOCK = 10
_LEAST_NS = 500.0
_LEAST_BLOCKS = 3
_BEATEN_BLOCKS = 4
_SHORT_NS, _SHORT_BLOCKS, _SHORT_TIMES, _SHORT_SECONDS = 300_000, 24, 4.0, 2.4
"""A call shorter than this, transfer included, needs so many pairs of blocks. While its interval is
wide it gets so many times `max_seconds`, but not beyond so many seconds: after 148 s it was still
wide."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The sides of a comparison; `reader` is None if nothing can read the state of a GPU."""

    reference: Runner
    candidates: Sequence[Runner]
    draw: Callable[[int], Inputs]
    reader: Callable[[], Reading] | None = None


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """How much is measured.

    Attributes:
        min_blocks: interleaved pairs of blocks before stopping is allowed.
        min_calls: timed candidate calls before stopping is allowed.
        target_width: relative width of the 95 % interval at which timing stops.
        max_seconds: when timing of one candidate stops whatever its interval, after three pairs of
            blocks at least. Each further candidate adds half of it. Short calls get 2.4 s, where
            that is more.
        patience_seconds: when it stops although other programs disturbed too many blocks.
        inputs: how many inputs each call releases together.
        least_speedup: timing also stops once the whole interval lies below this speedup.
        warm_seconds: how long each side at least runs before anything counts.
        warm_calls: how many calls that are at least.
        block_seconds: about how long a block lasts that is not short of calls.
        claims_certain: the value of a disturbed time is the part of it that is certain, not the
            likeliest.
    """

    min_blocks: int
    min_calls: int
    target_width: float
    max_seconds: float
    patience_seconds: float
    inputs: int = 1
    least_speedup: float = 0.0
    warm_seconds: float = 0.1
    warm_calls: int = 5
    block_seconds: float = 0.15
    claims_certain: bool = True


@dataclass(frozen=True, slots=True)
class _Block:
    """The clocks of one side's calls, what disturbed them, and the state of a GPU right after."""

    calls: list[CallTimes]
    contention: Contention
    state: Reading | None


@dataclass(frozen=True, slots=True)
class _Pair:
    """One block of the reference and of a candidate with the empty transfers before them."""

    empty: list[CallTimes]
    reference: _Block
    candidate: _Block
    medians: TimingBlock

    @property
    def share(self) -> float:
        """The share of the time in which other programs kept both sides waiting."""
        return (self.reference.contention.share + self.candidate.contention.share) / 2.0

    @property
    def state(self) -> PairState | None:
        """The states of a GPU after both blocks, if they are known."""
        ours, theirs = self.reference.state, self.candidate.state
        return PairState(ours, theirs) if ours and theirs else None


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """What a session found of one candidate; times are of one call, however many inputs it released.

    Attributes:
        timing: net times and their ratio.
        medians: both clocks of the reference and the candidate, transfer included, and of the empty
            transfers.
        resolution_ns: nothing shorter is claimed.
        delayed: share of the time in which any thread waited for a CPU, median over the blocks that
            count.
    """

    timing: Timing
    medians: TimingBlock
    resolution_ns: float
    delayed: float


@contextmanager
def frozen(*sides: Runner) -> Iterator[None]:
    """A context in which the children of these sides do not run."""
    with ExitStack() as stack:
        for side in sides:
            stack.enter_context(side.child.paused())
        yield


class Session:
    """Times candidates against the reference under one plan."""

    def __init__(self, sides: Sides, plan: SessionPlan, verified_calls: int) -> None:
        """A session that has not begun; `verified_calls` timed outputs of each candidate are kept."""
        self._reference, self._candidates = sides.reference, tuple(sides.candidates)
        self._sides = (self._reference, *self._candidates)
        self._draw, self._reader = sides.draw, sides.reader
        self._plan = plan
        self._patience = (1.0 + len(self._candidates)) / 2.0
        self._pairs: list[list[_Pair]] = [[] for _ in self._candidates]
        self._least_blocks, self._max_seconds = plan.min_blocks, plan.max_seconds
        self._reservoirs = {candidate: Reservoir(verified_calls) for candidate in self._candidates}

    def run(self) -> list[SessionTimes]:
        """Warm up and time until the intervals are tight, all are beaten or the time is up.

        Raises:
            Refused: a call failed.
        """
        # On a CPU the system places all sides: their threads are timed.
        on_gpu = self._reference.device.type == "cuda"
        with cores.taking_turns(*self._sides) if on_gpu else nullcontext(lambda: None) as move:
            move()
            calls = max([self._warm_up(side) for side in self._sides])
            started, order = time.monotonic(), self._sides
            timed = {pid for side in self._sides for pid in side.child.pids()}
            ours = {os.getpid()}.union(processes.descendants_of(os.getpid()), timed)
            meter = ContentionMeter(ours, {os.getpid(), *timed})
            while True:
                move()
                self._round(order, calls, meter)
                order = order[::-1]  # ABBA
                elapsed_seconds = (time.monotonic() - started) / self._patience
                if all(self._enough(pairs, calls, elapsed_seconds) for pairs in self._pairs):
                    return [self._measured(pairs) for pairs in self._pairs]

    def kept(self) -> list[list[TimedOutput]]:
        """The timed outputs of each candidate that are to be verified."""
        return [reservoir.all() for reservoir in self._reservoirs.values()]

    def _round(self, order: Sequence[Runner], calls: int, meter: ContentionMeter) -> None:
        """One block of each side."""
        empty = self._empty_calls()
        found = {side: self._block(side, calls, meter) for side in order}
        ours = found[self._reference]
        for candidate, pairs in zip(self._candidates, self._pairs, strict=True):
            theirs = found[candidate]
            medians = TimingBlock(middle_clocks(empty), middle_clocks(ours.calls), middle_clocks(theirs.calls))
            pairs.append(_Pair(empty, ours, theirs, medians))

    def _warm_up(self, side: Runner) -> int:
        """Run until warm; returns how many calls fit into one block."""
        started, calls, last = time.monotonic(), 0, 0.0
        while calls < self._plan.warm_calls or time.monotonic() - started < self._plan.warm_seconds:
            last = self._one(side)[0].wall_ns
            calls += 1
            if time.monotonic() - started > self._plan.max_seconds / 4:
                break
        if last < _SHORT_NS:
            self._least_blocks = max(self._plan.min_blocks, _SHORT_BLOCKS)
            longer = min(_SHORT_TIMES * self._plan.max_seconds, _SHORT_SECONDS, self._plan.patience_seconds)
            self._max_seconds = max(self._plan.max_seconds, longer)
        return max(2, min(_MOST_CALLS_PER_BLOCK, int(self._plan.block_seconds * 1e9 / max(last, 1.0))))

    def _enough(self, pairs: list[_Pair], calls: int, elapsed_seconds: float) -> bool:
        plan, clean = self._plan, len(self._clean(pairs))
        limit = self._max_seconds if clean >= self._least_blocks else plan.patience_seconds
        if elapsed_seconds > limit and len(pairs) >= _LEAST_BLOCKS:
            return True
        if plan.least_speedup and clean >= _BEATEN_BLOCKS and self._ratio(pairs).high < plan.least_speedup:
            return True
        tried = clean >= self._least_blocks and calls * clean >= plan.min_calls
        return tried and self._ratio(pairs).relative_width <= plan.target_width

    def _clean(self, pairs: list[_Pair]) -> list[_Pair]:
        """Pairs undisturbed by other programs on a CPU, by a change of clocks on a GPU."""
        if self._reference.device.type == "cuda":
            why = spoiled([pair.state for pair in pairs])
            return [pair for pair, reason in zip(pairs, why, strict=True) if not reason]
        return [pair for pair in pairs if pair.share <= CONTENDED]

    def _counted(self, pairs: list[_Pair]) -> list[_Pair]:
        """The clean pairs, or all if too few are clean; the verdict then says why."""
        clean = self._clean(pairs)
        return clean if len(clean) >= _LEAST_BLOCKS else pairs

    def _ratio(self, pairs: list[_Pair]) -> Ratio:
        counted = self._counted(pairs)
        return ratio_of_blocks([pair.medians for pair in counted], _resolution_ns(counted))

    def _measured(self, pairs: list[_Pair]) -> SessionTimes:
        counted = self._counted(pairs)
        resolution, contention = _resolution_ns(counted), median([pair.share for pair in counted])
        calls = [call for pair in counted for call in pair.candidate.calls]
        reference = middle_clocks([call for pair in counted for call in pair.reference.calls])
        empty, candidate = middle_clocks([call for pair in counted for call in pair.empty]), middle_clocks(calls)
        nets = net_ns(reference, empty, resolution), net_ns(candidate, empty, resolution)
        ratio = between_sessions(self._ratio(pairs), min(nets))
        if contention > CONTENDED:
            ours, theirs = (
                median([side.contention.share for side in sides])
                for sides in ([pair.reference for pair in counted], [pair.candidate for pair in counted])
            )
            ratio = doubted(ratio, ours, theirs)
            ratio = certain(ratio) if self._plan.claims_certain else ratio
        timing = Timing(
            reference_ms=nets[0] / 1e6,
            candidate_ms=nets[1] / 1e6,
            speedup=ratio.value,
            speedup_ci95=(ratio.low, ratio.high),
            blocks=len(counted),
            calls=len(calls),
            overhead_ms=empty.wall_ns / 1e6,
            dropped_blocks=len(pairs) - len(counted),
            contention=contention,
            state=summary([pair.state for pair in counted], [pair.state for pair in pairs]),
        )
        delayed = median(
            [(pair.reference.contention.delayed + pair.candidate.contention.delayed) / 2 for pair in counted]
        )
        return SessionTimes(timing, TimingBlock(empty, reference, candidate), resolution, delayed)

    def _empty_calls(self) -> list[CallTimes]:
        """Transfers without a model; a few in every block, so that drift is seen."""
        packed = self._reference.stage(*self._fresh()[1])
        return [self._reference.call(packed, Command.NULL) for _ in range(_EMPTY_CALLS_PER_BLOCK)]

    def _block(self, side: Runner, calls: int, meter: ContentionMeter) -> _Block:
        """One call that does not count, then those that do."""
        reservoir = self._reservoirs.get(side)
        with frozen(*[other for other in self._sides if other is not side]):
            meter.read()
            self._one(side)
            clocks, quickest = list[CallTimes](), None
            for _ in range(calls):
                call, kept = self._one(side)
                clocks.append(call)
                if reservoir is None:
                    continue
                for output in kept:
                    reservoir.offer(output)
                if quickest is None or call.wall_ns < quickest[0]:
                    quickest = call.wall_ns, kept[0]
            if reservoir is not None and quickest is not None:
                reservoir.offer_fastest(quickest[1])
            return _Block(clocks, meter.read(), self._reader() if self._reader is not None else None)

    def _one(self, side: Runner) -> tuple[CallTimes, list[TimedOutput]]:
        seeds, inputs = self._fresh()
        call = side.call(side.stage(*inputs))
        snapshots = side.snapshots()  # on every side, because copying disturbs the caches
        return call, [TimedOutput(seed, snapshot) for seed, snapshot in zip(seeds, snapshots, strict=True)]

    def _fresh(self) -> tuple[list[int], list[Inputs]]:
        seeds = [secrets.randbits(63) for _ in range(self._plan.inputs)]
        return seeds, [self._draw(seed) for seed in seeds]


def _resolution_ns(counted: Sequence[_Pair]) -> float:
    """The spread of the empty transfer: nothing shorter is claimed."""
    return max(half_spread([call.wall_ns for pair in counted for call in pair.empty]), _LEAST_NS)
