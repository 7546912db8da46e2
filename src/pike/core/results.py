"""What a contender reached on a task at a precision, and where that was measured: what every results table is made of.

Knows baselines, recipes, published solutions and the winners of runs as equals, so that they fill columns of one table.
Does not know how a verdict is reached (`evaluate`), who keeps the records (`store`) or what they add up to (`report`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from pike.core.device import DeviceFacts
from pike.core.evaluation import FIRST_CALL, Effort, EvaluateOptions, Evaluation, Precision, Status

_LOG_CHARACTERS = 2000
_SAYS_NOTHING = (Status.INFRA_ERROR, Status.UNTRUSTED_TIMING)


class ContenderKind(StrEnum):
    """Where a candidate came from."""

    BASELINE = "baseline"
    """Written down for every task alike: eager, `torch.compile`, TensorRT."""
    RECIPES = "recipes"
    """The winner of a search over recipes, without a language model."""
    PUBLISHED = "published"
    """A solution that somebody published."""
    RUN = "run"
    """The winner of any other run."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One column of a table.

    Attributes:
        name: short and stable, for example `compile:max-autotune` or `recipes`.
        kind: where its candidates come from.
    """

    name: str
    kind: ContenderKind


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything that is needed to measure the same again.

    Attributes:
        device: the machine as the judge sees it, with the versions of what runs on it.
        options: the terms of the judge.
        effort: how much was measured.
        pike_version: who measured.
        commit: of the project's source, `-dirty` behind it where files differ; empty where unknown.
        command: what was typed.
        date: when the measurement ended, UTC, ISO 8601.
        judges: how many judges shared the device; they build side by side and time alone.
        shared_caches: whether baselines found what compilers had left for others on the same task; their build times
            are then shorter than a user's.
    """

    device: DeviceFacts
    options: EvaluateOptions
    effort: Effort
    pike_version: str = ""
    commit: str = ""
    command: str = ""
    date: str = ""
    judges: int = 1
    shared_caches: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One contender on one task at one precision.

    Attributes:
        task: the task's id.
        task_digest: of its source.
        precision: the declared arithmetic.
        contender: who.
        provenance: where and how.
        candidate_digest: of the judged file; empty where there was none.
        evaluation: the verdict; None where nothing was measured.
        missing: why nothing was measured; empty where something was.
        original: nothing faster than the original was found, so it stays: a speedup of 1, whatever was measured.
        recipes: the best composition of recipes, in order.
        candidates: how many candidates were judged to find this one.
        seconds: wall-clock time that all of it took.
    """

    task: str
    task_digest: str
    precision: Precision
    contender: Contender
    provenance: Provenance
    candidate_digest: str = ""
    evaluation: Evaluation | None = None
    missing: str = ""
    recipes: tuple[str, ...] = ()
    candidates: int = 1
    seconds: float = 0.0
    original: bool = False

    def __post_init__(self) -> None:
        if (self.evaluation is None and not self.original) != bool(self.missing):
            raise ValueError("a result has either a verdict or the reason why nothing was measured")

    @property
    def cell(self) -> tuple[str, str, str, str]:
        """Where it stands in a table: device, task, precision and contender."""
        return self.provenance.device.name, self.task, self.precision.value, self.contender.name

    @property
    def speedup(self) -> float | None:
        """Over eager execution, None unless valid."""
        if self.original:
            return 1.0
        return self.evaluation.speedup if self.evaluation else None

    @property
    def build_seconds(self) -> float | None:
        """From the import of the candidate to its first answers, waits for the device excluded; None if it got no
        further than being read.

        What is compiled at the first call is in it. Where the first call did not return, all that was spent on it is.
        """
        spent = dict(self.evaluation.seconds) if self.evaluation else {}
        if "build" not in spent:
            return None
        last = spent.get(FIRST_CALL, spent.get("correct", 0.0))
        return spent["build"] + spent.get("load", 0.0) + last

    @property
    def settled(self) -> bool:
        """Whether it says something about the contender; a judge that failed does not."""
        return self.original if self.evaluation is None else self.evaluation.status not in _SAYS_NOTHING

    def repeats(self, known: Result) -> bool:
        """Whether measuring this would only repeat `known`: the same thing, in the same way, on the same kind of
        machine, with a verdict that says something about the candidate."""
        return known.settled and self.cell == known.cell and _terms(self) == _terms(known)


def digest(text: str) -> str:
    """A short name for a source text, the same everywhere."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def latest(results: Iterable[Result]) -> tuple[Result, ...]:
    """The newest result of each cell that says something, in the order in which cells came first."""
    found: dict[tuple[str, str, str, str], Result] = {}
    for result in results:
        known = found.get(result.cell)
        if known is None or (result.settled, result.provenance.date) >= (known.settled, known.provenance.date):
            found[result.cell] = result
    return tuple(found.values())


def trimmed(evaluation: Evaluation) -> Evaluation:
    """A verdict without what tables never show: its profile, and its log beyond the end of a refusal's."""
    log = "" if evaluation.valid else evaluation.log[-_LOG_CHARACTERS:]
    return replace(evaluation, log=log, profile=None)


def _terms(result: Result) -> tuple[object, ...]:
    place = result.provenance
    return result.task_digest, result.candidate_digest, place.device.versions, place.options, place.effort
