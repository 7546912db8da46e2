"""Figures of a run computed from its journal and from nothing else.

Works on a finished, a stopped, a killed and a running run. Does not know pages or charts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pike.core.accounts import Accounts
from pike.core.errors import UserError
from pike.core.events import (
    Admitted,
    Asked,
    Assigned,
    Compared,
    Event,
    Finished,
    JournalEntry,
    Judged,
    Proposed,
    QueryAnswered,
    QueryFailed,
    QuerySent,
    Resumed,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer
from pike.core.recipe_history import declined, recipe_history
from pike.core.settings.budget import Spend
from pike.core.step import Candidate, Role, Step
from pike.core.verdict.evaluation import Effort, Evaluation
from pike.reporting.summary import (
    CallRow,
    OpenStep,
    Place,
    ReportedCandidate,
    RoleSpend,
    RunSummary,
    State,
    VerdictPoint,
)
from pike.store import read


def require_texts(folder: Path) -> None:
    """Read all that a run's journal refers to.

    Raises:
        StoreError: something is missing or damaged.
    """
    for _ in read(folder):
        pass


def summarise(folder: Path) -> RunSummary:
    """The figures of the run in `folder`, which may still be running.

    Raises:
        UserError: there is no run in `folder`, or nothing has been written to its journal yet.
        StoreError: the journal cannot be read.
    """
    return fold(read(folder, without_texts=(QuerySent, QueryAnswered)), str(folder))


def fold(entries: Iterable[JournalEntry], name: str = "the journal") -> RunSummary:
    """The figures of a sequence of journal entries.

    Raises:
        UserError: the sequence does not begin with the start of a run.
    """
    totals = RunningTotals()
    for entry in entries:
        totals.take(entry)
    return totals.summary(name)


@dataclass(slots=True)
class RunningTotals:
    """The totals while a journal is read, or followed.

    Attributes:
        last_seq: the number of the last entry that was taken.
    """

    last_seq: int = 0

    started: RunStarted | None = None
    state: State = State.UNFINISHED
    stop_reason: str = ""
    closing: str = ""
    started_at: float = 0.0
    last_at: float = 0.0
    seconds: float = 0.0
    resumed: int = 0
    accounts: Accounts = field(default_factory=Accounts)
    known: Spend = field(default_factory=Spend)
    paid_usd: dict[int, float] = field(default_factory=dict)
    sessions: list[tuple[float, float]] = field(default_factory=list)
    calls: list[CallRow] = field(default_factory=list)
    roles: dict[Role, RoleSpend] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    proposed: set[int] = field(default_factory=set)
    entrants: dict[str, ReportedCandidate] = field(default_factory=dict)
    points: list[VerdictPoint] = field(default_factory=list)
    failures: list[tuple[Step, str]] = field(default_factory=list)
    ideas: tuple[str, ...] = ()
    remarks: str = ""
    judged: list[tuple[Candidate, Evaluation]] = field(default_factory=list)
    winner: str | None = None

    baselines: list[tuple[str, Evaluation]] = field(default_factory=list)
    open_steps: dict[int, OpenStep] = field(default_factory=dict)
    barren: list[Step] = field(default_factory=list)
    entries_of: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def take(self, entry: JournalEntry) -> None:
        """Take the next entry."""
        event = entry.event
        self.last_seq = entry.seq
        if self.started is None:
            self.started_at = entry.at_seconds
        elif not isinstance(event, Resumed):
            self.seconds += max(0.0, entry.at_seconds - self.last_at)
        if self.started is None or isinstance(event, Resumed):
            self.sessions.append((entry.at_seconds, entry.at_seconds))
        else:
            self.sessions[-1] = (self.sessions[-1][0], entry.at_seconds)
        self.last_at = entry.at_seconds
        self.accounts.apply(event)
        self._life(event)
        self._search(event)
        self._calls(event)
        self._flight(entry)

    def _flight(self, entry: JournalEntry) -> None:
        match entry.event:
            case Asked(step=step):
                self.open_steps[step.id] = OpenStep(step, "agent", entry.at_seconds)
            case QuerySent(query=query):
                self._waits(query.step_id, "model", entry)
                self.entries_of[query.step_id] = (*self.entries_of.get(query.step_id, ()), entry.seq)
            case QueryAnswered(step_id=step_id):
                self._waits(step_id, "agent", entry)
                self.entries_of[step_id] = (*self.entries_of.get(step_id, ()), entry.seq)
            case Proposed(step_id=step_id):
                self._waits(step_id, "judge", entry)
            case Assigned(candidate_id=name, worker=worker) if taken := self.entrants[name].step:
                self._waits(taken.id, "worker", entry, worker)
            case Resumed():
                for step_id in [id for id, one in self.open_steps.items() if one.worker]:
                    self._waits(step_id, "judge", entry)
            case Told(step_id=step_id):
                self.open_steps.pop(step_id, None)

    def _waits(self, step_id: int, phase: str, entry: JournalEntry, worker: str = "") -> None:
        if step_id in self.open_steps:
            known = self.open_steps[step_id]
            self.open_steps[step_id] = replace(known, phase=phase, since=entry.at_seconds, worker=worker)

    def _life(self, event: Event) -> None:
        match event:
            case RunStarted(imported=imported):
                self.started = event
                self.state = State.IMPORTED if imported else self.state
            case Resumed():
                self.resumed += 1
                self.state, self.stop_reason = State.UNFINISHED, self.closing
            case Stopped(reason=reason):
                self.state, self.stop_reason = State.STOPPED, reason
                self.closing = self.closing or (reason if event.for_good else "")
            case Finished(best=best):
                self.state, self.winner = State.FINISHED, best

    def _search(self, event: Event) -> None:
        match event:
            case Admitted(candidate=candidate, evaluation=evaluation):
                self.entrants[candidate.id] = ReportedCandidate(candidate, None, evaluation, at=self._here)
                self.judged.append((candidate, evaluation))
                self._place(candidate.id, evaluation)
            case Asked(step=step):
                self.steps[step.id] = step
            case Proposed(step_id=step_id, candidate=candidate):
                self.proposed.add(step_id)
                self.entrants[candidate.id] = ReportedCandidate(candidate, self.steps.get(step_id))
            case Judged(candidate_id=candidate_id, evaluation=evaluation, effort=effort):
                self._judged(candidate_id, evaluation, effort)
            case Compared(baseline=baseline, evaluation=evaluation):
                self.baselines.append((baseline, evaluation))
            case Told(step_id=step_id) if step_id in self.steps:
                self._told(event, self.steps[step_id])

    def _judged(self, candidate_id: str, evaluation: Evaluation, effort: Effort) -> None:
        entrant = self.entrants.get(candidate_id)
        if entrant is None:
            return
        if effort is Effort.FINAL:
            self.entrants[candidate_id] = replace(entrant, final=evaluation)
            return
        if entrant.search is None and entrant.step is not None:
            self._known(entrant.step)
        self.entrants[candidate_id] = replace(entrant, search=evaluation, at=self._here)
        self.judged.append((entrant.candidate, evaluation))
        self._place(candidate_id, evaluation)

    def _place(self, candidate_id: str, evaluation: Evaluation) -> None:
        if evaluation.timing is None:
            return
        speedup = evaluation.timing.speedup
        best = max(speedup, self.points[-1].best if self.points else speedup)
        self.points.append(VerdictPoint(self.known.queries, self.known.usd, self.seconds, candidate_id, speedup, best))

    @property
    def _here(self) -> Place:
        return Place(self.known.queries, self.known.usd, self.seconds)

    def _known(self, step: Step) -> None:
        """The outcome of a step is known now, and with it what it cost."""
        self.known += Spend(self.accounts.queries_of(step), self.paid_usd.get(step.id, 0.0))

    def _told(self, told: Told, step: Step) -> None:
        self.ideas = self.ideas or told.ideas
        self.remarks = told.text if step.role is Role.BRAINSTORM else self.remarks
        if step.id not in self.proposed:
            self._known(step)
            self.barren.append(step)
        if told.failure:
            self.failures.append((step, told.failure))

    def _calls(self, event: Event) -> None:
        match event:
            case QuerySent(query=query):
                self.roles.setdefault(query.role, RoleSpend(query.role))
            case QueryAnswered(step_id=step_id, attempt=attempt, answer=answer) if step_id in self.steps:
                role = self.steps[step_id].role
                self.roles[role] = _with_answer(self.roles.get(role, RoleSpend(role)), answer)
                tokens = answer.input_tokens, answer.cached_tokens, answer.output_tokens, answer.thinking_tokens
                self.calls.append(CallRow(step_id, attempt, role, answer.model, *tokens, answer.usd))
                self.paid_usd[step_id] = answer.usd or 0.0
            case QueryFailed(step_id=step_id) if step_id in self.steps:
                role = self.steps[step_id].role
                known = self.roles.get(role, RoleSpend(role))
                self.roles[role] = replace(known, failed=known.failed + 1)

    def summary(self, name: str = "the journal") -> RunSummary:
        """The figures by now.

        Raises:
            UserError: no start of a run was taken.
        """
        started = self.started
        if started is None:
            raise UserError(f"The run in {name} has not begun: its journal holds no start; run it again")
        entrants = tuple(self.entrants.values())
        finals = [e for e in entrants if e.final is not None]
        return RunSummary(
            task=started.task,
            config=started.config,
            device=started.device,
            pike_version=started.pike_version,
            state=self.state,
            stop_reason=self.stop_reason,
            started_at=self.started_at,
            seconds=self.seconds,
            resumed=self.resumed,
            rounds=1 + max((step.round for step in self.steps.values()), default=-1),
            spend=self.accounts.spend,
            uncertain=self.accounts.uncertain,
            held_usd=self.accounts.held_usd,
            sessions=tuple(self.sessions),
            calls=tuple(self.calls),
            roles=tuple(self.roles[role] for role in Role if role in self.roles),
            entrants=entrants,
            points=tuple(self.points),
            failures=tuple(self.failures),
            barren=tuple(self.barren),
            in_flight=tuple(self.open_steps.values()),
            ideas=self.ideas,
            recipe_history=recipe_history(self.judged),
            declined=declined(self.remarks),
            best=self._best(entrants),
            finalists=tuple(sorted(finals, key=lambda e: e.speedup, reverse=True)),
            imported=started.imported,
            baselines=tuple(self.baselines),
            original_profile=started.original_profile,
            entries_of=dict(self.entries_of),
        )

    def _best(self, entrants: tuple[ReportedCandidate, ...]) -> ReportedCandidate | None:
        if self.state is State.FINISHED:
            return self.entrants.get(self.winner) if self.winner else None
        valid = [e for e in entrants if e.verdict and e.verdict.valid]
        return max(valid, key=lambda e: e.speedup, default=None)


def _with_answer(spend: RoleSpend, answer: Answer) -> RoleSpend:
    seen = spend.models if answer.model in ("", *spend.models) else (*spend.models, answer.model)
    return replace(
        spend,
        calls=spend.calls + 1,
        input_tokens=spend.input_tokens + answer.input_tokens,
        output_tokens=spend.output_tokens + answer.output_tokens,
        thinking_tokens=spend.thinking_tokens + answer.thinking_tokens,
        usd=spend.usd + (answer.usd or 0.0),
        unpriced=spend.unpriced + int(answer.usd is None),
        models=seen,
    )
