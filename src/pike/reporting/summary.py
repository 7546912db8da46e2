"""What happened in a run, as records: candidates, verdicts, trajectory, spend and the best.

Knows what each figure means. Does not compute (`fold`) or show them (`page`).
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from pike.core.accounts import Uncertain
from pike.core.device import DeviceFacts
from pike.core.events import ImportedFrom
from pike.core.recipe_history import TriedComposition
from pike.core.settings.budget import Spend
from pike.core.settings.config import RunConfig
from pike.core.step import Candidate, Role, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, Status
from pike.core.verdict.profile import Profile


class State(StrEnum):
    """How far a run got."""

    FINISHED = "finished"
    """The best candidates were measured again and the result stands."""
    STOPPED = "stopped"
    """It was stopped on purpose and can be resumed."""
    UNFINISHED = "unfinished"
    """It is still running, or its process died; it can be resumed."""
    IMPORTED = "imported"
    """Another tool carried it out: PIKE judged nothing of it and cannot resume it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What had been spent when a verdict came in.

    Attributes:
        queries: budgeted queries whose outcome was known by then.
        usd: known money that those queries and the brainstorming cost; a repeated run has the same
            points.
        seconds: running time by then, the pauses between processes excluded.
    """

    queries: int
    usd: float
    seconds: float


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step without an outcome: in flight, or lost with a process.

    Attributes:
        step: what was asked.
        phase: what it waits for: `agent`, `model` or `judge`; `worker` once one has its candidate.
        since: Unix seconds from which it waits.
        worker: which worker has its candidate, on which GPU; empty where none was told.
    """

    step: Step
    phase: str
    since: float
    worker: str = ""


@dataclass(frozen=True, slots=True)
class ReportedCandidate:
    """One candidate with everything the run learnt about it.

    Attributes:
        candidate: the rewrite.
        step: the decision that brought it, None for a seed admitted from outside.
        search: the verdict during the search, None while it is out.
        final: the verdict of the thorough measurement at the end, None unless it was a finalist.
        at: what had been spent when its search verdict came in, None while it is out.
    """

    candidate: Candidate
    step: Step | None = None
    search: Evaluation | None = None
    final: Evaluation | None = None
    at: Place | None = None

    @property
    def verdict(self) -> Evaluation | None:
        """The verdict that counts: the final one where there is one."""
        return self.final or self.search

    @property
    def speedup(self) -> float:
        """The speedup that counts, 0 where there is none."""
        return (self.verdict.speedup if self.verdict else None) or 0.0

    @property
    def faster(self) -> bool:
        """Whether it beats the original by more than the measurement's uncertainty."""
        verdict = self.verdict
        return verdict is not None and verdict.timing is not None and verdict.timing.faster

    @property
    def derived_from(self) -> str:
        """Id of the candidate that it continues: the failing one for a repair, else its parent."""
        return (self.step.failing if self.step else None) or self.candidate.parent


@dataclass(frozen=True, slots=True)
class VerdictPoint(Place):
    """A valid search verdict, placed by what had been spent when it came in.

    Attributes:
        candidate_id: whose verdict it is.
        speedup: its speedup over the original during the search.
        best: the highest speedup up to here.
    """

    candidate_id: str
    speedup: float
    best: float


@dataclass(frozen=True, slots=True)
class CallRow:
    """One answered call: what it used and cost; `usd` is None where its price is unknown."""

    step: int
    attempt: int
    role: Role
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    thinking_tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class RoleSpend:
    """What the calls of one role cost: answered calls, failed attempts, tokens and money."""

    role: Role
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in figures.

    Attributes:
        task: the problem.
        config: everything that decided the run.
        device: where candidates ran.
        pike_version: the version that started it.
        state: how far it got.
        stop_reason: why asking stopped, empty while it has not.
        started_at: Unix seconds of the first entry.
        seconds: running time, the pauses between processes excluded.
        resumed: how many times a later process continued it.
        rounds: search rounds begun.
        spend: what was spent; its queries are those that the strategy asked.
        uncertain: calls that were sent and have no outcome in the journal: in flight, or lost with
            a process. What they may have cost is not part of `spend`.
        held_usd: the worst case of answers whose price is unknown although their model has one; a
            budget counts it.
        sessions: (begin, end) in Unix seconds of each process's part of the run.
        calls: every answered call, in order.
        roles: spend by role, without the roles that were never called.
        entrants: every candidate in order of appearance.
        points: the valid search verdicts in order of time.
        failures: (step, why nothing came) in order.
        barren: steps that ended without a candidate, brainstorming and planning included.
        in_flight: steps without an outcome.
        ideas: what brainstorming brought, best first.
        recipe_history: what each composition of recipes brought, in order of the verdicts.
        declined: (recipe, why it does not apply) pairs.
        best: the fastest valid candidate, re-measured in a finished run; None without one. Where it
            is not `faster`, the original stays and the run's speedup is 1.
        finalists: the candidates measured again at the end, fastest first.
        imported: where the run comes from if another tool carried it out, else None.
        baselines: (name, verdict) of what was timed in the sessions of the finalists.
        original_profile: where the original's time goes, None where it was not profiled.
        entries_of: by step, the numbers of the journal entries that hold its prompts and answers.
    """

    task: Task
    config: RunConfig
    device: DeviceFacts
    pike_version: str
    state: State
    stop_reason: str
    started_at: float
    seconds: float
    resumed: int
    rounds: int
    spend: Spend
    uncertain: Uncertain
    held_usd: float
    sessions: tuple[tuple[float, float], ...]
    calls: tuple[CallRow, ...]
    roles: tuple[RoleSpend, ...]
    entrants: tuple[ReportedCandidate, ...]
    points: tuple[VerdictPoint, ...]
    failures: tuple[tuple[Step, str], ...]
    barren: tuple[Step, ...]
    in_flight: tuple[OpenStep, ...]
    ideas: tuple[str, ...]
    recipe_history: tuple[TriedComposition, ...]
    declined: tuple[tuple[str, str], ...]
    best: ReportedCandidate | None
    finalists: tuple[ReportedCandidate, ...]
    baselines: tuple[tuple[str, Evaluation], ...]
    original_profile: Profile | None
    entries_of: dict[int, tuple[int, ...]]
    imported: ImportedFrom | None = None

    @property
    def statuses(self) -> tuple[tuple[Status, int], ...]:
        """How many candidates got each status, in the order of `Status`, without zeros."""
        counts = Counter(entrant.search.status for entrant in self.entrants if entrant.search)
        return tuple((status, counts[status]) for status in Status if counts[status])

    @property
    def fix_attempts(self) -> tuple[tuple[int, int], ...]:
        """(fix attempts, valid solutions that needed them), 0 first; no seeds from outside."""
        valid = [entrant for entrant in self.entrants if entrant.step and entrant.search and entrant.search.valid]
        counts = Counter(entrant.step.attempt for entrant in valid if entrant.step)
        return tuple(sorted(counts.items()))

    @property
    def never_valid(self) -> int:
        """How many samples were judged and never became valid, fixes included."""
        judged = [entrant for entrant in self.entrants if entrant.step and entrant.search]
        samples = {(e.step.round, e.step.sample) for e in judged if e.step}
        good = {(e.step.round, e.step.sample) for e in judged if e.step and e.search and e.search.valid}
        return len(samples - good)

    @property
    def rises(self) -> tuple[VerdictPoint, ...]:
        """The points at which the best so far rose."""
        before = (0.0, *(point.best for point in self.points))
        return tuple(point for point, best in zip(self.points, before, strict=False) if point.best > best)

    def entrant(self, candidate_id: str) -> ReportedCandidate | None:
        """The entrant with this candidate id, None if there is none."""
        return next((e for e in self.entrants if e.candidate.id == candidate_id), None)
