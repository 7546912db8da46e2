"""What a run is doing right now, as a record for whoever watches.

Knows how a snapshot is computed from the run's memory. Does not know terminals or pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pike.core.budget import Budget, Spend
from pike.core.evaluation import SHARED_DEVICE, Effort, Status
from pike.core.events import Admitted, Asked, Event, Judged, QueryFailed, Stopped, Told
from pike.core.step import Role, Step
from pike.engine.ledger import Uncertain
from pike.engine.memory import Memory

LAST_EVENTS = 8


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing in progress.

    Attributes:
        name: the candidate's or step's short name.
        role: who was asked, None for a recipe seed or a finalist.
        round: the search round.
        sample: the sample in its round.
        attempt: the fix attempt, 0 for none.
        doing: `asking`, `planning` or `fixing` (asking for a plan or a fix), `waiting` (for a judge), or the stage of
            the evaluation (`parse`, `build`, `load`, `correct`, `time`, `recheck`).
    """

    name: str
    role: Role | None
    round: int
    sample: int
    attempt: int
    doing: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot.

    Attributes:
        task: name of the problem.
        phase: `starting`, `seeding`, `searching`, `finishing` (asking stopped), `measuring` (the finalists) or `done`.
        round: the latest search round, from 0.
        spend: what was spent.
        uncertain: calls without an answer, those in flight included.
        budget: the limits.
        best_speedup: of the fastest valid candidate, None before one; measured again once finalists are.
        best_id: its id.
        reference_ms: the original model's time, None before the first valid verdict.
        active: what is in progress, in order of starting.
        counts: (status, candidates) pairs, most first.
        events: the last few things that happened, one line each, oldest first.
        stopped: why asking stopped, empty while it has not.
    """

    task: str
    phase: str
    round: int
    spend: Spend
    uncertain: Uncertain
    budget: Budget
    best_speedup: float | None
    best_id: str | None
    reference_ms: float | None
    active: tuple[Activity, ...]
    counts: tuple[tuple[Status, int], ...]
    events: tuple[str, ...]
    stopped: str


Observer = Callable[[Progress], None]
"""Called in the run's thread whenever something changed; must return quickly."""


class Board:
    """Keeps what is in progress and tells the observer.

    Args:
        memory: the run's state.
        observer: who watches, None for nobody.
    """

    def __init__(self, memory: Memory, observer: Observer | None) -> None:
        self._memory = memory
        self._observer = observer
        self._active: dict[str, Activity] = {}
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)
        self._phase = "starting"

    def enter(self, phase: str) -> None:
        """The run enters a phase."""
        self._phase = phase
        self._show()

    def doing(self, step: Step, doing: str) -> None:
        """A step is now doing something else."""
        self.set(Activity(f"c{step.id}", step.role, step.round, step.sample, step.attempt, doing))

    def set(self, activity: Activity) -> None:
        """Something is in progress."""
        self._active[activity.name] = activity
        self._show()

    def drop(self, name: str) -> None:
        """Something is no longer in progress."""
        if self._active.pop(name, None) is not None:
            self._show()

    def note(self, line: str) -> None:
        """Say something that is no event."""
        self._events.append(line)
        self._show()

    def happened(self, event: Event) -> None:
        """An event was written."""
        line = line_of(event)
        if line:
            self._events.append(line)
        self._show()

    def _show(self) -> None:
        if self._observer is not None and self._memory.started is not None:
            self._observer(self._snapshot())

    def _snapshot(self) -> Progress:
        memory = self._memory
        finals = [(e.speedup or 0.0, id_) for id_, e in memory.finals.items() if e.valid]
        best = memory.best
        speedup, best_id = max(finals, default=(best.evaluation.speedup if best else None, memory.best_id))
        return Progress(
            task=memory.task.name,
            phase=self._phase,
            round=max(0, memory.latest_round),
            spend=memory.accounts.spend,
            uncertain=memory.accounts.uncertain,
            budget=memory.config.budget,
            best_speedup=speedup,
            best_id=best_id,
            reference_ms=memory.reference_ms,
            active=tuple(self._active.values()),
            counts=tuple(memory.counts.most_common()),
            events=tuple(self._events),
            stopped=memory.stopped,
        )


def line_of(event: Event) -> str:
    """An event in a few words; empty where nobody who watches would miss it."""
    match event:
        case Asked(step=step) if step.role.repairs:
            return f"c{step.id}: fix {step.attempt} of {step.failing}"
        case Asked(step=step) if step.role is Role.BRAINSTORM:
            return "asked for ideas"
        case Asked(step=step) if step.role is Role.PLAN:
            return f"c{step.id}: a plan for {step.seed}"
        case Asked(step=step) if step.role is Role.CODE:
            return f"c{step.id}: carries out a plan for {step.seed}"
        case Asked(step=step):
            return f"c{step.id}: round {step.round}, from {step.seed}"
        case Judged(candidate_id=id_, evaluation=evaluation, effort=effort):
            again = "measured again: " if effort is Effort.FINAL else ""
            verdict = f"{evaluation.speedup:.2f}x" if evaluation.speedup is not None else evaluation.status.value
            device = "GPU" if SHARED_DEVICE in evaluation.labels else "CPU"
            held = f", while other programs held the {device}" if evaluation.disturbed else ""
            return f"{id_}: {again}{verdict}{held}"
        case Admitted(candidate=candidate, evaluation=evaluation):
            return f"{candidate.id}: {evaluation.speedup or 0.0:.2f}x, a seed"
        case QueryFailed(step_id=step_id, reason=reason):
            return f"c{step_id}: call failed: {reason}"
        case Told(step_id=step_id, failure=failure) if failure:
            return f"c{step_id}: {failure}"
        case Told(ideas=ideas) if ideas:
            return f"{len(ideas)} ideas"
        case Told(step_id=step_id, text=text) if text:
            return f"c{step_id}: planned"
        case Stopped(reason=reason):
            return f"asking stopped: {reason}"
        case _:
            return ""
