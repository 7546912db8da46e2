"""One sample before the judge: what was owed, what it got, and whether that will do.

Knows how to read a verdict against what is owed. Does not know who asks.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from pike.core.errors import InfraError, UserError
from pike.core.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.evaluate.client import JudgeClient
from pike.evaluate.corpus.bait import REACHED
from pike.evaluate.corpus.catalogue import NEUTRAL, REFUSED, Sample
from pike.evaluate.sandbox import choose

TASK_REFUSED = "task-refused"
"""What a sample got where the task itself was refused."""
_MOST_LOG_CHARACTERS = 64_000
_CLAIM = "CLAIMED"
"""What samples write where only measured things belong."""
_NO_GAIN, _CERTAIN_GAIN = 1.3, 1.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one sample got.

    Attributes:
        sample: which one.
        got: the status, `task-refused`, or `infra-error`.
        problem: why that is not what was owed, empty where it is.
        reason: the verdict's own words.
        speedup: where it is valid.
        seconds: wall clock.
        evaluation: the whole verdict, None where there was none.
    """

    sample: Sample
    got: str
    problem: str
    reason: str
    speedup: float | None
    seconds: float
    evaluation: Evaluation | None


def obstacle(sample: Sample, device: str, sandbox: str) -> str:
    """Why a sample proves nothing on this machine, empty where it does.

    Raises:
        UserError: the sandbox is unknown or does not work here.
    """
    kind = device.partition(":")[0]
    if kind not in sample.devices:
        return f"needs {' or '.join(sample.devices)}"
    if len(os.sched_getaffinity(0)) < sample.cpus:
        return f"needs {sample.cpus} CPUs"
    level = choose(sandbox, kind == "cuda")
    if sample.needs is not None and sample.needs not in level.claims:
        return f"the sandbox level {level.name} does not promise: {sample.needs.value}"
    return ""


def judge_sample(judge: JudgeClient, sample: Sample, options: EvaluateOptions, most_gain: float = _NO_GAIN) -> Outcome:
    """Judge a sample as often as it needs and compare the last verdict with what is owed.

    Args:
        judge: a judge, started while the bait was laid out.
        sample: which one.
        options: the terms; device, sandbox, threads and seconds of timing count, the sample decides the rest.
        most_gain: the speedup up to which a verdict counts as no gain.
    """
    started = time.monotonic()
    terms = replace(
        options,
        precision=sample.precision,
        timeout_seconds=sample.timeout_seconds,
        memory_bytes=sample.memory_bytes or options.memory_bytes,
    )
    task, source = sample.task_on(options.device), sample.source_on(options.device)
    request = EvaluationRequest(task, source, terms, sample.effort, profile=sample.profile)
    try:
        for _ in range(sample.runs):
            found = judge.evaluate(request)
    except (UserError, InfraError) as error:
        got = TASK_REFUSED if isinstance(error, UserError) else Status.INFRA_ERROR.value
        wrong = "" if got in sample.owed else f"{got} instead of {' or '.join(sample.owed)}"
        return Outcome(sample, got, wrong, str(error), None, time.monotonic() - started, None)
    wrong = problem(sample, found, most_gain)
    return Outcome(sample, found.status.value, wrong, found.reason, found.speedup, time.monotonic() - started, found)


def problem(sample: Sample, found: Evaluation, most_gain: float = _NO_GAIN) -> str:
    """Why a verdict is not what the sample is owed, empty where it is."""
    if REACHED in found.log:
        return "reached what it must not reach"
    if len(found.log) > _MOST_LOG_CHARACTERS:
        return f"its log of {len(found.log)} characters was not capped"
    owed = " or ".join(sample.owed)
    if found.status is not Status.VALID:
        refused = REFUSED in sample.owed and found.status is not Status.INFRA_ERROR
        return "" if refused or found.status.value in sample.owed else f"{found.status.value} instead of {owed}"
    if sample.profile and (found.profile is None or _CLAIM in str(found.profile.flat())):
        return "its profile is missing or holds what it forged"
    if sample.label and sample.label not in found.labels:
        return f"accepted without the label {sample.label}"
    if "valid" in sample.owed:
        return ""
    if NEUTRAL not in sample.owed:
        return f"accepted instead of {owed}"
    assert found.timing is not None
    gained = found.timing.speedup > most_gain and found.timing.speedup_ci95[0] > _CERTAIN_GAIN
    return f"accepted with a gain of {found.timing.speedup:.2f}x" if gained else ""
