"""A run of another tool, read whole: the same records for every layout.

Knows what a journal needs and how a foreign verdict becomes an `Evaluation`. Does not know any
layout, nor how a journal is written (`writing`).
"""

import math
from dataclasses import dataclass
from typing import Any

from pike.core.errors import UserError
from pike.core.events import ImportedFrom
from pike.core.query import Answer
from pike.core.step import ORIGINAL
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, Status, Timing, Tolerance

LABEL = "imported"
"""The label of every verdict that PIKE did not reach."""
LOG_CHARACTERS = 10_000
"""The most of a log that is kept: its end."""


@dataclass(frozen=True, slots=True)
class ForeignVerdict:
    """What a tool says about one candidate.

    Attributes:
        status: `valid`, or the nearest word for why not.
        ms: milliseconds of one call, None where the tool did not time it.
        speedup: over the original, where the tool computed it.
        score: the tool's own score, higher is better.
        reason: why it was refused, in the tool's words.
        log: output that the tool kept.
    """

    status: Status
    ms: float | None = None
    speedup: float | None = None
    score: float | None = None
    reason: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class ForeignCandidate:
    """One candidate.

    Attributes:
        key: the tool's name for it.
        source: the whole file, empty where an answer held none.
        parent: the key of what it was derived from, `ORIGINAL`, or empty where that is unknown.
        repairs: the key of the failing candidate that it mends, empty for none.
        attempt: the repair's number from 1, 0 for none.
        sample: the line of work it belongs to.
        note: one line for people.
        system: the system prompt.
        prompt: the prompt that it answers, empty where that is unknown.
        answer: the answer that held it.
        at_seconds: when it was judged, Unix seconds, None where that is unknown.
        island: where it lives, from 0; None where that is unknown.
    """

    key: str
    source: str
    verdict: ForeignVerdict
    parent: str = ORIGINAL
    repairs: str = ""
    attempt: int = 0
    sample: int = 0
    note: str = ""
    system: str = ""
    prompt: str = ""
    answer: Answer | None = None
    at_seconds: float | None = None
    island: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """One run.

    Attributes:
        name: the name of its folder.
        strategy: the search's name for people.
        model: who wrote the candidates, empty where that is unknown.
        original: what the tool says about the unmodified model.
        candidates: in the order in which they were judged.
        baselines: (name, milliseconds) of what was timed beside it.
        ideas: what brainstorming brought.
        tolerance: the rule of correctness.
    """

    name: str
    task: Task
    origin: ImportedFrom
    strategy: str
    original: ForeignVerdict
    candidates: tuple[ForeignCandidate, ...]
    model: str = ""
    baselines: tuple[tuple[str, float], ...] = ()
    ideas: tuple[str, ...] = ()
    tolerance: Tolerance = Tolerance.STRICT


def evaluation_of(verdict: ForeignVerdict, run: ForeignRun) -> Evaluation:
    """A foreign verdict as PIKE's record: no interval, no blocks, no error, the label `imported`.

    Raises:
        UserError: a valid candidate cannot be compared with the original.
    """
    terms = {"tolerance": run.tolerance, "labels": (LABEL,), "log": verdict.log[-LOG_CHARACTERS:]}
    if verdict.status is not Status.VALID:
        return Evaluation(verdict.status, verdict.reason or f"{run.origin.tool} refused it", **terms)  # type: ignore[arg-type]
    speedup = _speedup(verdict, run)
    reference_ms = math.nan if run.original.ms is None else run.original.ms
    candidate_ms = math.nan if verdict.ms is None else verdict.ms
    timing = Timing(reference_ms, candidate_ms, speedup, (math.nan, math.nan), blocks=0, calls=0, overhead_ms=0.0)
    return Evaluation(Status.VALID, timing=timing, **terms)  # type: ignore[arg-type]


def _speedup(verdict: ForeignVerdict, run: ForeignRun) -> float:
    """The tool's own speedup, else the ratio of times, else that of scores."""
    if verdict.speedup is not None and verdict.speedup > 0:
        return verdict.speedup
    original = run.original
    if verdict.ms and original.ms:
        return original.ms / verdict.ms
    if (verdict.score or 0.0) > 0 and (original.score or 0.0) > 0:
        return (verdict.score or 0.0) / (original.score or 1.0)
    raise UserError(
        f"{run.origin.source} has neither a time nor a positive score of the original, so that nothing can be "
        "compared with it: put the times of its baselines beside it"
    )


def number(value: object) -> float | None:
    """A finite number out of foreign JSON, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def object_of(data: Any, key: str = "") -> dict[str, Any]:
    """A JSON object, or the one under a key of it; empty where there is none."""
    found = data.get(key) if key and isinstance(data, dict) else data
    return found if isinstance(found, dict) else {}
