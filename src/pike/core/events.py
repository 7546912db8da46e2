"""The events of a journal: one frozen record for each thing that happened, in order.

Knows the events and how they become JSON. Does not know files (`store`) or when events are written
(`engine`).
"""

from dataclasses import dataclass, field
from typing import Any

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.query import Answer, Query
from pike.core.settings.config import RunConfig
from pike.core.step import Candidate, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, Evaluation
from pike.core.verdict.profile import Profile


@dataclass(frozen=True, slots=True)
class ImportedFrom:
    """Where an imported run comes from: another tool carried it out, and PIKE judged nothing.

    Attributes:
        tool: the tool's name for people.
        source: the path that was read.
        missing: what the source does not say, one sentence each.
        islands: where candidates live, by their ids here; empty for a search without islands.
    """

    tool: str
    source: str
    missing: tuple[str, ...] = ()
    islands: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins: everything that decides it, and the original's time in the preflight.

    Attributes:
        prompts: the version of the prompts, empty where no model is asked.
        original_profile: where the original's time goes, None where it was not profiled.
        imported: where the run comes from if another tool carried it out, else None.
    """

    task: Task
    config: RunConfig
    device: DeviceFacts
    pike_version: str
    original_ms: float | None = None
    prompts: str = ""
    original_profile: Profile | None = None
    imported: ImportedFrom | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """A later process continues the run."""

    pike_version: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """A solution enters from outside, free of queries (a recipe seed)."""

    candidate: Candidate
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Asked:
    """The strategy decided a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class QuerySent:
    """A call is about to be made; `reserved_usd` is its worst case, None if unknown."""

    query: Query
    attempt: int
    model: str
    reserved_usd: float | None
    reserved_tokens: int


@dataclass(frozen=True, slots=True)
class BatchSent:
    """Calls go to a vendor's batch API together: written before that, and again with the handle.

    Attributes:
        model: the model's name.
        steps: the steps whose queries are in it.
        handle: what a later process collects the answers with, empty before it is known; no key.
    """

    model: str
    steps: tuple[int, ...]
    handle: str = ""


@dataclass(frozen=True, slots=True)
class QueryAnswered:
    """A call returned; from here on it is paid for and never sent again."""

    step_id: int
    attempt: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class QueryFailed:
    """A call failed and brought nothing."""

    step_id: int
    attempt: int
    reason: str
    transient: bool


@dataclass(frozen=True, slots=True)
class Proposed:
    """A step brought a candidate; its verdict is still out."""

    step_id: int
    candidate: Candidate


WORKER = "worker "
"""What the name of a worker begins with."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A worker has a step's candidate from now on: `worker 2 on GPU 1`; it is the pool's name."""

    candidate_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on a candidate."""

    candidate_id: str
    evaluation: Evaluation
    effort: Effort = Effort.SEARCH


@dataclass(frozen=True, slots=True)
class Compared:
    """A verdict on a baseline, timed in the same sessions as the finalists."""

    baseline: str
    source: str
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Told:
    """The strategy learnt the outcome of a step; candidate and verdict were written before."""

    step_id: int
    candidate_id: str | None = None
    ideas: tuple[str, ...] = ()
    failure: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process stops asking.

    Attributes:
        reason: done, queries, money, tokens, hours, exhausted, interrupted, paused (others go
            first), provider, infra, waiting (for an external answer) or elsewhere (for verdicts of
            another machine).
    """

    reason: str

    @property
    def for_good(self) -> bool:
        """Whether the finalists are measured next; after any other reason the search goes on later."""
        return self.reason in {"done", "queries", "money", "tokens", "hours", "exhausted"}


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is complete; `best` is None when no finalist was valid."""

    best: str | None


Event = (
    RunStarted
    | Resumed
    | Admitted
    | Asked
    | QuerySent
    | BatchSent
    | QueryAnswered
    | QueryFailed
    | Proposed
    | Assigned
    | Judged
    | Compared
    | Told
    | Stopped
    | Finished
)

KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in Event.__args__}
"""Event classes by the name under which they are journalled."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One journal line: its number from 1, when it was written (Unix seconds), and the event."""

    seq: int
    at_seconds: float
    event: Event


def event_to_json(event: Event) -> tuple[str, Any]:
    """The kind and the JSON-ready body of an event."""
    return type(event).__name__, encode(event)


def event_from_json(kind: str, body: Any) -> Event:
    """The event that `event_to_json` turned into (`kind`, `body`).

    Raises:
        ValueError: the kind is unknown or the body does not fit.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown journal event {kind!r}")
    event: Event = decode(KINDS[kind], body)
    return event
