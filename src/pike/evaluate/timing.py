"""How fast: one input at a time, which decides, then several released together, which is reported beside it.

Knows how much is measured for which purpose, when a child's clock is not to be trusted, and what becomes the verdict's
timing. Does not know how a session measures (`blocks`) nor what is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pike.core.evaluation import CONTENDED, FASTER_MARGIN, Effort, Status, Throughput, Timing
from pike.evaluate.blocks import Kept, Measured, Reservoir, Session, SessionPlan, Sides
from pike.evaluate.refusal import Refused
from pike.evaluate.stats import Clocks

_TOGETHER_NS = 1e8
"""The reference's time for all inputs released together: longer calls have nothing to hide between them."""
_BATCH_MARGIN = 0.1
"""By how much the gain of inputs released together must exceed that of one at a time to be noticed."""
ONLY_IN_BATCHES = "gains-only-in-batches"
"""Label of a candidate whose gain shows when several inputs are released together, and not as much in one at a time."""
CLOCKS_UNKNOWN = "clocks-not-known"
"""Label of a verdict reached on a GPU whose driver tells no clocks."""
_AUDITED_CALLS = 16
_SEARCH_SECONDS = 0.6
"""A candidate of a search holds the device alone for so long, if six pairs of blocks fit: others wait for it."""
_CHILD_DISAGREES, _CHILD_SLACK_NS, _CHILD_SLACK_SPREADS = 0.25, 200_000, 4.0


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is measured.

    Attributes:
        latency: the session with one input at a time.
        throughput: the session with several inputs released together, None to leave it out.
        verified_calls: timed outputs of each session kept for verification, its very last one always among them.
    """

    latency: SessionPlan
    throughput: SessionPlan | None
    verified_calls: int


def plan_for(effort: Effort, max_seconds: float, inputs: int, beat: float = 0.0) -> TimingPlan:
    """Cheap while searching, thorough for what is reported.

    Args:
        effort: what the measurement is for.
        max_seconds: the most time for the latency session.
        inputs: how many inputs a call of the throughput session releases; 1 leaves that session out.
        beat: a speedup below which the candidate is of no interest while searching.
    """
    if effort is Effort.SEARCH:
        seconds = min(_SEARCH_SECONDS, max_seconds / 2)
        return TimingPlan(SessionPlan(6, 20, 0.03, seconds, max_seconds, beat=beat), None, 5)
    latency = SessionPlan(12, 50, 0.015, max_seconds, 4 * max_seconds)
    throughput = SessionPlan(6, 12, 0.03, max_seconds / 3, max_seconds, inputs)
    return TimingPlan(latency, throughput if inputs > 1 else None, 8)


def plan_for_audit(max_seconds: float, inputs: int) -> TimingPlan:
    """More than for what is reported: a result that is held must not be believed by chance."""
    return replace(plan_for(Effort.FINAL, max_seconds, inputs), verified_calls=_AUDITED_CALLS)


class Stopwatch:
    """Times a candidate against the reference."""

    def __init__(self, sides: Sides, plan: TimingPlan) -> None:
        self._sides, self._plan = sides, plan
        self.kept: list[Kept] = []
        """Timed outputs that are to be verified."""

    def measure(self) -> Timing:
        """Both sessions.

        Raises:
            Refused: a call failed, or the child's times contradict the judge's clock.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the judge's own threads would compete with the child's
        try:
            latency = self._session(self._plan.latency)
            if _disagreement_ns(latency):  # a machine that was busy for a moment looks like this too
                latency = self._session(self._plan.latency)
                _check_child(latency)
            timing = _timing(latency)
            together = _together(self._plan.throughput, latency)
            if together is None:
                return timing
            return replace(timing, throughput=_throughput(self._session(together), together.inputs))
        finally:
            torch.set_num_threads(threads)
            self._sides.reference.child.thaw()
            self._sides.candidate.child.thaw()

    def _session(self, plan: SessionPlan) -> Measured:
        reservoir = Reservoir(self._plan.verified_calls)
        found = Session(self._sides, plan, reservoir).run()
        self.kept += reservoir.all()
        return found


def labels_of(timing: Timing, on_gpu: bool) -> list[str]:
    """What is noticed about a timing and refuses nothing."""
    labels = [CLOCKS_UNKNOWN] if on_gpu and (timing.state is None or timing.state.candidate_sm_mhz is None) else []
    together = timing.throughput
    if together and together.speedup_ci95[0] > max(timing.speedup_ci95[1] * (1.0 + _BATCH_MARGIN), 1.0 + FASTER_MARGIN):
        labels.append(ONLY_IN_BATCHES)
    return labels


def _together(plan: SessionPlan | None, latency: Measured) -> SessionPlan | None:
    """The throughput session with as many inputs as are of use, None where that is one."""
    inputs = min(plan.inputs, int(_TOGETHER_NS / latency.reference_ns)) if plan else 1
    return replace(plan, inputs=inputs) if plan and inputs > 1 else None


def _check_child(found: Measured) -> None:
    """An alarm, not a measurement: a child whose clock runs slow is not worth listening to."""
    if gap := _disagreement_ns(found):
        raise Refused(
            Status.UNTRUSTED_TIMING, f"the child's own clock differs from the judge's by {gap / 1e6:.3g} ms a call"
        )


def _disagreement_ns(found: Measured) -> float:
    """By how much a call's two clocks differ where that is too much, otherwise 0.

    The reference's child is ours and wakes up on the same machine: what its own clock does not see, no clock there
    sees. Where threads waited for a CPU nothing is said at all.
    """
    if found.delayed > CONTENDED:
        return 0.0
    allowed = max(
        _CHILD_DISAGREES * (found.candidate.wall_ns - found.empty.wall_ns),
        _CHILD_SLACK_NS,
        _CHILD_SLACK_SPREADS * found.resolution_ns,
    )
    gap, usual = (_unseen_ns(clocks, found.empty) for clocks in (found.candidate, found.reference))
    return gap if min(abs(gap), abs(gap - usual)) > allowed else 0.0


def _unseen_ns(call: Clocks, empty: Clocks) -> float:
    """What the judge's clock says of a call beyond an empty one, and the child's own does not."""
    return (call.wall_ns - empty.wall_ns) - (call.child_ns - empty.child_ns)


def _timing(found: Measured) -> Timing:
    return Timing(
        reference_ms=found.reference_ns / 1e6,
        candidate_ms=found.candidate_ns / 1e6,
        speedup=found.ratio.value,
        speedup_ci95=(found.ratio.low, found.ratio.high),
        blocks=found.blocks,
        calls=found.calls,
        overhead_ms=found.empty.wall_ns / 1e6,
        dropped_blocks=found.dropped_blocks,
        contention=found.contention,
        state=found.state,
    )


def _throughput(found: Measured, inputs: int) -> Throughput:
    return Throughput(
        inputs=inputs,
        reference_ms=found.reference_ns / inputs / 1e6,
        candidate_ms=found.candidate_ns / inputs / 1e6,
        speedup=found.ratio.value,
        speedup_ci95=(found.ratio.low, found.ratio.high),
        blocks=found.blocks,
    )
