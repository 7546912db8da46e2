"""What a run is doing right now, as a record for terminals and pages.

Knows how a snapshot is computed from the run's state. Does not know how it is shown.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pike.core import figures
from pike.core.accounts import Uncertain
from pike.core.events import (
    WORKER,
    Admitted,
    Asked,
    Compared,
    Event,
    Judged,
    Proposed,
    QueryFailed,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.settings.budget import Budget, Spend
from pike.core.step import LAST_OF, Role, Step
from pike.core.verdict.evaluation import SHARED_DEVICE, Effort, Evaluation, Status
from pike.engine.state.run_state import RunState
from pike.engine.state.timetable import kept_seconds, limit_seconds

LAST_EVENTS = 8
LAST_REFUSALS = 3
MOST_POINTS = 48
"""Places of the trajectory in a snapshot."""
JUDGED = "judged"
"""What a candidate is doing of which only the journal is known."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing in progress.

    Attributes:
        name: the candidate's or step's short name.
        role: the role that was asked, None for a recipe seed or a finalist.
        round: the search round.
        sample: the sample in its round.
        attempt: the fix attempt, 0 for none.
        doing: `asking`, `planning`, `fixing`, `waiting` (for a judge), or the stage of the
            evaluation (`parse`, `build`, `load`, `correct`, `time`, `recheck`). `judged` where
            another process knows the stage.
        worker: which worker has it, on which GPU, empty for none or where that is not known.
    """

    name: str
    role: Role | None
    round: int
    sample: int
    attempt: int
    doing: str
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot.

    Attributes:
        phase: `starting`, `seeding`, `searching`, `measuring` (the finalists) or `done`.
        round: the latest search round, from 0.
        uncertain: calls without an answer, those in flight included.
        best_speedup: of the fastest valid candidate, None before one; from the finals once there
            are any.
        reference_ms: the original model's time, None where it was not run yet.
        active: what is in progress, in order of starting.
        counts: (status, candidates) pairs, most first.
        events: the last few things that happened, one line each, oldest first.
        stopped: why asking stopped, empty while it has not.
        asks_models: some role asks a model; otherwise recipes write all, and no step is a query.
        most_candidates: how many the budget allows where recipes write, None for no limit.
        limit_seconds: the limit of time, None without one.
        kept_seconds: what of it is kept for the finalists.
        earlier_seconds: what earlier processes used of it.
        trajectory: the best speedup so far, at up to `MOST_POINTS` even places of the valid
            candidates, the newest last.
        refusals: (candidate, status and reason) pairs of the last refused ones, oldest first.
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
    asks_models: bool = True
    candidates: int = 0
    most_candidates: int | None = None
    limit_seconds: float | None = None
    kept_seconds: float = 0.0
    earlier_seconds: float = 0.0
    trajectory: tuple[float, ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()


Observer = Callable[[Progress], None]
"""Called in the run's thread whenever something changed; must return quickly."""


class ProgressBoard:
    """Keeps what is in progress and tells the observer; None for nobody yet."""

    def __init__(self, state: RunState, observer: Observer | None) -> None:
        self._state = state
        self.observer = observer
        self.earlier_seconds = 0.0
        self._active: dict[str, Activity] = {}
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)
        self._phase = "starting"
        self._seen = 0
        self._best: list[float] = []
        self._refusals: deque[tuple[str, str]] = deque(maxlen=LAST_REFUSALS)

    def enter(self, phase: str) -> None:
        """The run enters a phase."""
        self._phase = phase
        self._show()

    def doing(self, step: Step, doing: str) -> None:
        """A step is now doing something else."""
        self.set(Activity(f"c{step.id}", step.role, step.round, step.sample, step.attempt, doing))

    def judging(self, candidate_id: str, stage: str) -> None:
        """A candidate of no step is at a stage of its evaluation."""
        self.set(Activity(candidate_id, None, 0, 0, 0, stage))

    def set(self, activity: Activity) -> None:
        """Something is in progress; a worker that took a candidate has it through all stages."""
        doing, known = activity.doing, self._active.get(activity.name)
        if doing.startswith(WORKER):
            activity = replace(activity, doing=JUDGED, worker=doing)
        elif known and doing not in ("waiting", JUDGED):
            activity = replace(activity, worker=known.worker)
        self._active[activity.name] = activity
        self._show()

    def drop(self, name: str) -> None:
        """Something is no longer in progress."""
        if self._active.pop(name, None) is not None:
            self._show()

    def note(self, line: str) -> None:
        """Add a line that is no event."""
        self._events.append(line)
        self._show()

    def happened(self, event: Event) -> None:
        """An event was written."""
        line = line_of(event)
        if line:
            self._events.append(line)
        self._show()

    def _show(self) -> None:
        if self.observer is not None and self._state.started is not None:
            self.observer(self.snapshot())

    def _look_at_verdicts(self) -> None:
        """Take the verdicts that came since the last snapshot, those read back included."""
        known = self._state.known
        for candidate in known[self._seen :]:
            verdict = self._state.solutions[candidate.id].evaluation
            if verdict.speedup is not None:
                self._best.append(max([verdict.speedup, *self._best[-1:]]))
            else:
                self._refusals.append((candidate.id, _refused(verdict)))
        self._seen = len(known)

    def snapshot(self) -> Progress:
        """What is going on by now."""
        state = self._state
        self._look_at_verdicts()
        finals = [(e.speedup or 0.0, id_) for id_, e in state.finals.items() if e.valid]
        best = state.best
        speedup, best_id = max(finals, default=(best.evaluation.speedup if best else None, state.best_id))
        return Progress(
            task=state.task.name,
            phase=self._phase,
            round=max(0, state.latest_round),
            asks_models=state.config.llm.asks_models,
            candidates=len(state.solutions),
            most_candidates=state.config.budget.queries if state.costs_queries else None,
            spend=state.accounts.spend,
            uncertain=state.accounts.uncertain,
            budget=state.config.budget,
            best_speedup=speedup,
            best_id=best_id,
            reference_ms=state.reference_ms,
            active=tuple(self._active.values()),
            counts=tuple(state.counts.most_common()),
            events=tuple(self._events),
            stopped=state.stopped,
            limit_seconds=limit_seconds(state.config.engine),
            kept_seconds=kept_seconds(state),
            earlier_seconds=self.earlier_seconds,
            trajectory=tuple(evenly(self._best, MOST_POINTS)),
            refusals=tuple(self._refusals),
        )


def evenly(values: Sequence[float], most: int) -> list[float]:
    """At most so many of the values, at even places, the last one always among them."""
    count = min(most, len(values))
    return [values[(at + 1) * len(values) // count - 1] for at in range(count)]


def doing_of(step: Step) -> str:
    """What a step is doing while its role is asked."""
    if step.role is Role.PLAN:
        return "planning"
    return "fixing" if step.role.repairs else "asking"


def line_of(event: Event) -> str:
    """An event in a few words, empty for events that are not worth a line."""
    match event:
        case RunStarted(original_ms=float(ms)):
            return f"the original takes {figures.ms(ms)} a call"
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
        case Proposed(candidate=candidate) if candidate.note.startswith(LAST_OF):
            return f"{candidate.id}: {candidate.note.partition(':')[0]}"
        case Judged(candidate_id=id_, evaluation=evaluation, effort=effort):
            return f"{id_}: {'measured again: ' if effort is Effort.FINAL else ''}{_verdict(evaluation)}"
        case Compared(baseline=name, evaluation=evaluation):
            return f"the baseline {name}: {_verdict(evaluation)}"
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


def _refused(evaluation: Evaluation) -> str:
    return f"{evaluation.status.value}: {evaluation.reason.partition(chr(10))[0]}"


def _verdict(evaluation: Evaluation) -> str:
    ms = figures.ms(evaluation.candidate_ms)
    words = _refused(evaluation) if evaluation.speedup is None else f"{evaluation.speedup:.2f}x, {ms}"
    device = "GPU" if SHARED_DEVICE in evaluation.labels else "CPU"
    return f"{words}, while other programs held the {device}" if evaluation.disturbed else words
