"""What a client and an evaluation service say to each other, as frozen records.

Knows what is asked, what is told, and what names a submission. Does not know HTTP (`connection`) or
who may ask.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from pike.core.codec import encode
from pike.core.device import DeviceFacts
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest
from pike.engine.executors.versions import Versions, versions

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"


class Asks(Enum):
    """What a submission is for: verdicts, or about the original that it runs or how recipes see it."""

    VERDICTS = "verdicts"
    PREFLIGHT = "preflight"
    RECIPES = "recipes"


@dataclass(frozen=True, slots=True)
class AskedCandidate:
    """One candidate of a submission; the attributes are those of `EvaluationRequest`."""

    source: str
    options: EvaluateOptions = field(default_factory=EvaluateOptions)
    effort: Effort = Effort.SEARCH
    least_speedup: float = 0.0
    profile: bool = False

    def request(self, task: Task) -> EvaluationRequest:
        """What a judge is asked."""
        return EvaluationRequest(task, self.source, self.options, self.effort, self.least_speedup, self.profile)


@dataclass(frozen=True, slots=True)
class Submission:
    """What a service is asked to judge, at once.

    Attributes:
        parcel: the digest of the task's parcel.
        candidates: one, or finalists that are judged together.
        asks: for verdicts, or about the original instead of the candidates.
        versions: those of the client, which must be the service's; empty for any.
        device: the maker's name of the device that must judge; empty for any.
    """

    parcel: str
    candidates: tuple[AskedCandidate, ...]
    asks: Asks = Asks.VERDICTS
    versions: Versions = ()
    device: str = ""

    def digest(self, device: str) -> str:
        """SHA-256 of what decides the verdict: the question, the device and the versions."""
        whole = replace(self, versions=versions(), device=device)
        return hashlib.sha256(json.dumps(encode(whole), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something was refused or failed: a word for programs, a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SubmissionState:
    """What a service says about a submission.

    Attributes:
        id: the digest that names it.
        state: `queued`, `running`, `done`, `failed` or `cancelled`.
        stages: what was done to its candidates so far, in this run of the service.
        evaluations: the verdicts once it is done, in the order of its candidates.
        original_ms: milliseconds of the original, for a preflight.
        explored: what recipes say (the JSON of `Explored.record`).
        error: why it failed.
    """

    id: str
    state: str
    stages: tuple[str, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    original_ms: float | None = None
    explored: str = ""
    error: Problem | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it, unless it is submitted again."""
        return self.state in (DONE, FAILED, CANCELLED)


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """What a service is.

    Attributes:
        versions: those that its verdicts rest on.
        device: what it judges on.
        judges: how many candidates it judges at once.
        sandbox: the sandbox of every candidate.
        queued: submissions that wait or are judged now.
        most_queued: how many of them it takes.
    """

    versions: Versions
    device: DeviceFacts
    judges: int
    sandbox: str
    queued: int
    most_queued: int


def submission_of(
    parcel: str, requests: Sequence[EvaluationRequest], *, asks: Asks = Asks.VERDICTS, device: str = ""
) -> Submission:
    """Requests of one task as they travel."""
    asked = tuple(
        AskedCandidate(one.source, one.options, one.effort, one.least_speedup, one.profile) for one in requests
    )
    return Submission(parcel, asked, asks, versions(), device)
