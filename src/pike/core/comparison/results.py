"""What a contender reached on a task at a precision, and where it was measured.

Knows all kinds of contenders as equals. Does not know what results add up to (`reporting`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pike.core.comparison.contender import Contender
from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import FIRST_CALL, Effort, EvaluateOptions, Evaluation, Precision, Status

_LOG_CHARACTERS = 2000
_SAYS_NOTHING = (Status.INFRA_ERROR, Status.UNTRUSTED_TIMING)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything that is needed to measure the same again.

    Attributes:
        device: the machine as the judge sees it, with the versions of what runs on it.
        options: the terms of the judge.
        effort: how much was measured.
        pike_version: the version that measured.
        commit: of the project's source, `-dirty` behind it where files differ; empty where unknown.
        command: what was typed.
        date: when the measurement ended, UTC, ISO 8601.
        judges: how many judges shared the device; they build side by side and time alone.
        shared_caches: True if baselines found what compilers had left for others on the same task;
            their build times are then shorter than a user's.
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
        contender: the participant.
        provenance: where and how it was measured.
        candidate_digest: of the judged file; empty where there was none.
        evaluation: the verdict; None where nothing was measured.
        missing: why nothing was measured; empty where something was.
        original: True if nothing faster than the original was found, so it stays: a speedup of 1,
            whatever was measured.
        recipes: the best composition of recipes, in order.
        candidates: how many candidates were judged to find this one.
        seconds: wall-clock time that all of it took.
        folder: the name of its cell's folder; empty in results of older versions.
        family: the kind of model that the task's file declares; empty where it declares none.
        cold_start_seconds: the first start of a winner, in the search, before its caches were kept;
            None where there was no search over recipes.
        beside: the contender in whose final sessions it was timed; empty if it had its own.
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
    folder: str = ""
    family: str = ""
    cold_start_seconds: float | None = None
    beside: str = ""

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
        """Seconds from the import of the candidate to its first answers, without waits.

        Compilation at the first call counts, also where that call did not return. None if the
        candidate was only read.
        """
        spent = dict(self.evaluation.seconds) if self.evaluation else {}
        if self.cold_start_seconds is not None or "build" not in spent:
            return self.cold_start_seconds
        return spent["build"] + spent.get("load", 0.0) + spent.get(FIRST_CALL, spent.get("correct", 0.0))

    @property
    def settled(self) -> bool:
        """Whether it says something about the contender; a failure of the judge does not."""
        return self.original if self.evaluation is None else self.evaluation.status not in _SAYS_NOTHING

    def repeats(self, known: Result) -> bool:
        """Whether `known` is settled, with equal cell, sources, settings, versions, terms, effort."""
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
    """A verdict without what tables never show: its profile, and its log beyond the end of a
    refusal's.
    """
    log = "" if evaluation.valid else evaluation.log[-_LOG_CHARACTERS:]
    return replace(evaluation, log=log, profile=None)


def _terms(result: Result) -> tuple[object, ...]:
    place, contender = result.provenance, result.contender
    own = contender.strategy, contender.llm
    return result.task_digest, result.candidate_digest, place.device.versions, place.options, place.effort, own
