"""Imaginary problems that answer a strategy's steps at once, by the step's content and never by its id.

Knows verdicts. A world is a function from a step to its outcome; what it answers for a sample depends only on its salt
and on (role, round, sample, attempt), so that the order of asking changes nothing but ids.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step
from pike.core.verdict.evaluation import Evaluation, Status, Timing

World = Callable[[Step], Outcome]
FAILURES = tuple(status for status in Status if status is not Status.VALID)


def valid(ms: float) -> Evaluation:
    return Evaluation(Status.VALID, timing=Timing(10.0, ms, 10.0 / ms, (10.0 / ms, 10.0 / ms), 5, 50, 0.0))


def refused(status: Status = Status.WRONG_OUTPUT) -> Evaluation:
    return Evaluation(status, reason=f"refused: {status}")


def candidate_for(step: Step, source: str | None = None) -> Candidate:
    text = f"# {step.round}/{step.sample}/{step.attempt}" if source is None else source
    return Candidate(f"c{step.id}", text, parent=step.seed)


def brainstormed(step: Step, count: int = 10) -> Outcome:
    return Outcome(step.id, ideas=tuple(f"idea {index}" for index in range(count)))


def planned(step: Step) -> Outcome:
    return Outcome(step.id, text=f"plan {step.round}/{step.sample}")


def landscape(salt: int, *, valid_rate: float = 0.4, declines: float = 0.1, ideas: int = 10) -> World:
    """A rugged world: every status occurs, agents decline, sources repeat, times tie."""

    def answer(step: Step) -> Outcome:
        rng = random.Random(f"{salt}/{step.role}/{step.round}/{step.sample}/{step.attempt}")
        if step.role is Role.BRAINSTORM:
            return (
                brainstormed(step, ideas) if rng.random() < 0.9 else Outcome(step.id, failure="no list in the answer")
            )
        if rng.random() < declines:
            return Outcome(step.id, failure="declined")
        if step.role is Role.PLAN:
            return planned(step) if rng.random() < 0.9 else Outcome(step.id, text=" ")
        if rng.random() < valid_rate:
            return Outcome(step.id, candidate_for(step, f"# {rng.randrange(30)}"), valid(rng.randrange(1, 40) / 4))
        status = rng.choice(FAILURES)
        source = "" if status is Status.PARSE_ERROR else None
        return Outcome(step.id, candidate_for(step, source), refused(status))

    return answer


def only_valid(places: Sequence[tuple[int, int]], ms: float = 1.0) -> World:
    """Samples (round, sample) in `places` are valid at once, the earlier in the list the faster; all others never."""

    def answer(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return brainstormed(step)
        if step.role is Role.PLAN:
            return planned(step)
        place = (step.round, step.sample)
        if place in places:
            return Outcome(step.id, candidate_for(step), valid(ms + places.index(place)))
        return Outcome(step.id, candidate_for(step), refused())

    return answer


def failing_agent(step: Step) -> Outcome:
    """Writes something every time, and it never works."""
    if step.role is Role.BRAINSTORM:
        return Outcome(step.id)
    return planned(step) if step.role is Role.PLAN else Outcome(step.id, candidate_for(step), refused())


def declining_agent(step: Step) -> Outcome:
    """Never writes anything."""
    return Outcome(step.id, failure="nothing left to try")


def always(status: Status) -> World:
    """Every candidate meets one status."""

    def answer(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return brainstormed(step)
        if step.role is Role.PLAN:
            return planned(step)
        return Outcome(step.id, candidate_for(step), valid(1.0) if status is Status.VALID else refused(status))

    return answer


@dataclass(frozen=True)
class Decision:
    """A step without its ids: candidates are named by where they came from."""

    step: Step
    seed: str
    failing: str
    inspirations: tuple[str, ...]
    failed: tuple[str, ...]


def decisions(calls: Sequence[Step | Outcome]) -> list[Decision]:
    """The steps of a trace without ids, in an order that does not depend on ids either."""
    names = {ORIGINAL: ORIGINAL}
    steps = {call.id: call for call in calls if isinstance(call, Step)}
    for call in calls:
        if isinstance(call, Outcome) and call.candidate is not None:
            step = steps[call.step_id]
            names[call.candidate.id] = f"{step.role}/{step.round}/{step.sample}/{step.attempt}"
    found = [
        Decision(
            step=replace(step, id=0, seed="", failing=None, inspirations=(), failed=()),
            seed=names.get(step.seed, step.seed),
            failing=names[step.failing] if step.failing else "",
            inspirations=tuple(names[identity] for identity in step.inspirations),
            failed=tuple(names[identity] for identity in step.failed),
        )
        for step in steps.values()
    ]
    return sorted(found, key=lambda each: (each.step.round, each.step.sample, each.step.attempt, each.step.role))
