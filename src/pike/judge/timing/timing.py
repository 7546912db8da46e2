"""How fast a candidate is: one input at a time decides; several together are reported too.

Knows when a child's clock is not to be trusted. Does not know how a session measures (`session`).
"""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pike.core.verdict.evaluation import (
    CONTENDED,
    FASTER_MARGIN,
    ON_SOME_VALUES,
    Effort,
    Status,
    Throughput,
    Timing,
    WorstInputs,
)
from pike.judge.calls.runner import CallTimes
from pike.judge.reference.input_distributions import InputDistribution
from pike.judge.refusal import Refused
from pike.judge.timing.cores import torch_threads
from pike.judge.timing.reservoir import TimedOutput
from pike.judge.timing.session import Session, SessionPlan, SessionTimes, Sides

_TOGETHER_MS = 100.0
"""The reference's time for all inputs released together; longer calls hide nothing."""
_BATCH_MARGIN = 0.1
"""By how much the gain of several inputs must exceed that of one to be labelled."""
ONLY_IN_BATCHES = "gains-only-in-batches"
"""Label of a candidate that gains clearly more when several inputs are released together."""
SLOW_FIRST_CALL = "slow-first-call"
"""Label of a candidate whose first call costs more than the calls after it soon make up for."""
_VALUES_MARGIN = 0.2
"""By how much the gain on the task's inputs must exceed the least one to be labelled."""
_SOON_CALLS, _SLOW_MS = 1000, 100.0
"""A first call is slow if it lags by more than this, and this many calls do not make up for it."""
CLOCKS_UNKNOWN = "clocks-not-known"
"""Label of a verdict reached on a GPU whose driver tells no clocks."""
_VALUES_SECONDS = 0.04
"""About how long a block under an input distribution lasts: enough to tell apart by a fifth."""
_AUDITED_CALLS = 16
_SEARCH_SECONDS = 0.6
"""How long a candidate of a search holds the device alone, if six pairs of blocks fit."""
_CHILD_DISAGREES, _CHILD_SLACK_NS, _CHILD_SLACK_SPREADS = 0.25, 200_000, 4.0


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is measured.

    Attributes:
        latency: the session with one input at a time.
        throughput: the session with several inputs released together, None to leave it out.
        values: the session under each input distribution, None to leave them out.
        verified_calls: timed outputs of each session kept for verification, its very last one
            always among them.
    """

    latency: SessionPlan
    throughput: SessionPlan | None
    verified_calls: int
    values: SessionPlan | None = None


def plan_for(effort: Effort, max_seconds: float, inputs: int, least_speedup: float = 0.0) -> TimingPlan:
    """The plan for a purpose: cheap while searching, thorough for what is reported.

    Args:
        effort: what the measurement is for.
        max_seconds: the most time for the latency session.
        inputs: how many inputs a call of the throughput session releases; 1 leaves that session
            out.
        least_speedup: a speedup below which the candidate is of no interest while searching.
    """
    if effort is Effort.SEARCH:
        seconds = min(_SEARCH_SECONDS, max_seconds / 2)
        search = SessionPlan(6, 20, 0.03, seconds, max_seconds, least_speedup=least_speedup, claims_certain=False)
        return TimingPlan(search, None, 5)
    latency = SessionPlan(12, 50, 0.015, max_seconds, 4 * max_seconds)
    throughput = SessionPlan(6, 12, 0.03, max_seconds / 3, max_seconds, inputs)
    values = SessionPlan(
        3, 6, math.inf, max_seconds / 20, max_seconds, warm_seconds=0.0, warm_calls=1, block_seconds=_VALUES_SECONDS
    )
    return TimingPlan(latency, throughput if inputs > 1 else None, 8, values)


def plan_for_audit(max_seconds: float, inputs: int) -> TimingPlan:
    """The plan for a time that is too good to be true: the most outputs are verified."""
    return replace(plan_for(Effort.FINAL, max_seconds, inputs), verified_calls=_AUDITED_CALLS)


class Stopwatch:
    """Times candidates against the reference, all in the same sessions.

    Attributes:
        kept: timed outputs to verify, of each candidate.
    """

    def __init__(self, sides: Sides, plan: TimingPlan, distributions: Sequence[InputDistribution] = ()) -> None:
        self._sides, self._plan, self._distributions = sides, plan, distributions
        self.kept: list[list[TimedOutput]] = [[] for _ in sides.candidates]

    def measure(self) -> list[Timing]:
        """Run all sessions; returns the timing of each candidate.

        Raises:
            Refused: a call failed, or a child's times contradict the judge's clock.
        """
        with torch_threads(1):  # the judge's own threads would compete with the child's
            latency = self._session(self._plan.latency)
            if any(map(_disagreement_ns, latency)):  # a machine that was busy for a moment looks like this too
                latency = self._session(self._plan.latency)
                if gap := max(map(_disagreement_ns, latency), key=abs):
                    words = f"the child's own clock differs from the judge's by {gap / 1e6:.3g} ms a call"
                    raise Refused(Status.UNTRUSTED_TIMING, words)
            timings = self._with_worst([found.timing for found in latency])
            together = _together(self._plan.throughput, timings[0])
            if together is None:
                return timings
            found = self._session(together)
            return [
                replace(timing, throughput=_throughput(one.timing, together.inputs))
                for timing, one in zip(timings, found, strict=True)
            ]

    def _session(self, plan: SessionPlan) -> list[SessionTimes]:
        session = Session(self._sides, plan, self._plan.verified_calls)
        found = session.run()
        for kept, new in zip(self.kept, session.kept(), strict=True):
            kept += new
        return found

    def _with_worst(self, latency: list[Timing]) -> list[Timing]:
        """Each with its least gain under the distributions."""
        plan, until = self._plan.values, time.monotonic() + self._plan.latency.patience_seconds
        found: list[tuple[InputDistribution, list[Timing]]] = []
        everyone = range(len(latency))
        for distribution in random.SystemRandom().sample(self._distributions, len(self._distributions)):
            if plan is None or (found and time.monotonic() > until):
                break
            found.append((distribution, self._under(distribution, plan, everyone)))
        if plan is None or not found:
            return latency
        return [
            replace(
                latency[place],
                worst=self._worst(place, latency[place], plan, [(name, of[place]) for name, of in found]),
            )
            for place in everyone
        ]

    def _worst(
        self, place: int, latency: Timing, plan: SessionPlan, found: list[tuple[InputDistribution, Timing]]
    ) -> WorstInputs:
        """The least gain of one candidate; a clearly lesser one is measured once more."""
        # By the upper end: a session on a busy machine has a wide interval and proves nothing.
        distribution, timing = min(found, key=lambda one: one[1].speedup_ci95[1])
        if _is_less((timing.speedup, timing.speedup), latency):
            (again,) = self._under(distribution, replace(plan, min_blocks=2 * plan.min_blocks), [place])
            timing = timing if again.disturbed else again
        return WorstInputs(distribution.name, timing.speedup, timing.speedup_ci95)

    def _under(self, distribution: InputDistribution, plan: SessionPlan, places: Sequence[int]) -> list[Timing]:
        """The timings of some candidates on inputs of this distribution."""
        draw, candidates = self._sides.draw, [self._sides.candidates[place] for place in places]
        changed = lambda seed: distribution.change(draw(seed), seed)  # noqa: E731
        session = Session(replace(self._sides, candidates=candidates, draw=changed), plan, 1)
        found = session.run()
        for place, kept in zip(places, session.kept(), strict=True):
            self.kept[place] += [replace(output, distribution=distribution) for output in kept]
        return [one.timing for one in found]


def labels_of(timing: Timing, on_gpu: bool) -> list[str]:
    """Findings about a timing that refuse nothing."""
    labels = [CLOCKS_UNKNOWN] if on_gpu and (timing.state is None or timing.state.candidate_sm_mhz is None) else []
    together = timing.throughput
    if together and together.speedup_ci95[0] > max(timing.speedup_ci95[1] * (1.0 + _BATCH_MARGIN), 1.0 + FASTER_MARGIN):
        labels.append(ONLY_IN_BATCHES)
    if timing.worst and timing.faster and _is_less(timing.worst.speedup_ci95, timing):
        labels.append(ON_SOME_VALUES)
    late = (timing.first_call_ms or 0.0) - (timing.reference_first_call_ms or 0.0)
    soon = timing.pays_after_calls is not None and timing.pays_after_calls <= _SOON_CALLS
    if late > _SLOW_MS and not soon:
        labels.append(SLOW_FIRST_CALL)
    return labels


def _is_less(interval: tuple[float, float], latency: Timing) -> bool:
    """Whether a speedup with this interval is clearly less than that on the task's inputs."""
    return interval[1] * (1.0 + _VALUES_MARGIN) < latency.speedup_ci95[0]


def _together(plan: SessionPlan | None, latency: Timing) -> SessionPlan | None:
    """The throughput session with as many inputs as are useful; None if that is one."""
    inputs = min(plan.inputs, int(_TOGETHER_MS / latency.reference_ms)) if plan else 1
    return replace(plan, inputs=inputs) if plan and inputs > 1 else None


def _disagreement_ns(found: SessionTimes) -> float:
    """By how much a call's two clocks differ if that is too much, otherwise 0.

    The reference process is trusted and wakes up on the same machine, so that a gap of its clocks
    is no lie. If threads waited for a CPU, the clocks prove nothing.
    """
    if found.delayed > CONTENDED:
        return 0.0
    empty, reference, candidate = found.medians.empty, found.medians.reference, found.medians.candidate
    share = _CHILD_DISAGREES * (candidate.wall_ns - empty.wall_ns)
    allowed = max(share, _CHILD_SLACK_NS, _CHILD_SLACK_SPREADS * found.resolution_ns)
    gap, usual = _unseen_ns(candidate, empty), _unseen_ns(reference, empty)
    return gap if min(abs(gap), abs(gap - usual)) > allowed else 0.0


def _unseen_ns(call: CallTimes, empty: CallTimes) -> float:
    """The net time by the judge's clock minus that by the child's."""
    return (call.wall_ns - empty.wall_ns) - (call.child_ns - empty.child_ns)


def _throughput(found: Timing, inputs: int) -> Throughput:
    each = found.reference_ms / inputs, found.candidate_ms / inputs
    return Throughput(inputs, *each, found.speedup, found.speedup_ci95, found.blocks)
