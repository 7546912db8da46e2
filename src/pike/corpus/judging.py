"""Judge one sample and compare its verdict with the expected one.

Does not know which samples exist (`catalogue`) or where the outcome is shown.
"""

import os
import time
from dataclasses import dataclass, replace

from pike.core.errors import InfraError, UserError
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.corpus.bait import REACHED
from pike.corpus.catalogue import LABELLED, NEUTRAL, REFUSED, CorpusSample
from pike.judge.client import JudgeClient
from pike.judge.process.filters import enforced
from pike.judge.sandbox import choose

TASK_REFUSED = "task-refused"
"""The outcome of a sample whose task was refused."""
_MOST_LOG_CHARACTERS = 64_000
_CLAIM = "CLAIMED"
"""Samples write this into fields that hold measurements."""
_NO_GAIN, _CERTAIN_GAIN = 1.3, 1.1


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """The outcome of one sample.

    Attributes:
        sample: the sample.
        got: the status, `task-refused`, or `infra-error`.
        problem: how that differs from the expected verdict, empty if it does not.
        reason: the verdict's own words.
        speedup: of a valid candidate.
        seconds: wall clock.
        evaluation: the whole verdict, None if there was none.
    """

    sample: CorpusSample
    got: str
    problem: str
    reason: str
    speedup: float | None
    seconds: float
    evaluation: Evaluation | None


def obstacle(sample: CorpusSample, device: str, sandbox: str) -> str:
    """Why a sample proves nothing on this machine, empty if it does.

    Raises:
        UserError: the sandbox is unknown or does not work here.
    """
    kind = device.partition(":")[0]
    if kind not in sample.devices:
        return f"needs {' or '.join(sample.devices)}"
    if len(os.sched_getaffinity(0)) < sample.cpus:
        return f"needs {sample.cpus} CPUs"
    level = choose(sandbox, kind == "cuda")
    if sample.needs is not None and sample.needs not in enforced(level, kind == "cuda"):
        return f"at the sandbox level {level.name} nothing enforces: {sample.needs.value}"
    return ""


def judge_sample(
    judge: JudgeClient, sample: CorpusSample, options: EvaluateOptions, most_gain: float = _NO_GAIN
) -> SampleOutcome:
    """Judge a sample as often as it needs and compare the last verdict with the expected one.

    Args:
        judge: a judge that was started inside `Bait`.
        sample: the sample.
        options: the terms for device, sandbox, threads and seconds; the sample decides the rest.
        most_gain: a larger speedup counts as a gain.
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
        wrong = "" if got in sample.expected else f"{got} instead of {' or '.join(sample.expected)}"
        return SampleOutcome(sample, got, wrong, str(error), None, time.monotonic() - started, None)
    wrong = problem(sample, found, most_gain)
    return SampleOutcome(
        sample, found.status.value, wrong, found.reason, found.speedup, time.monotonic() - started, found
    )


def problem(sample: CorpusSample, found: Evaluation, most_gain: float = _NO_GAIN) -> str:
    """How a verdict differs from the expected one, empty if it does not."""
    if REACHED in found.log:
        return "reached what it must not reach"
    if len(found.log) > _MOST_LOG_CHARACTERS:
        return f"its log of {len(found.log)} characters was not capped"
    wanted = " or ".join(sample.expected)
    if found.status is not Status.VALID:
        refused = REFUSED in sample.expected and found.status is not Status.INFRA_ERROR
        return "" if refused or found.status.value in sample.expected else f"{found.status.value} instead of {wanted}"
    if sample.profile and (found.profile is None or _CLAIM in str(found.profile.flat())):
        return "its profile is missing or holds what it forged"
    unsure = LABELLED in sample.expected and found.disturbed  # such a label rests on times
    if sample.label and sample.label not in found.labels and not unsure:
        return f"accepted without the label {sample.label}"
    if {"valid", LABELLED} & set(sample.expected):
        return ""
    if NEUTRAL not in sample.expected:
        return f"accepted instead of {wanted}"
    assert found.timing is not None
    gained = found.timing.speedup > most_gain and found.timing.speedup_ci95[0] > _CERTAIN_GAIN
    return f"accepted with a gain of {found.timing.speedup:.2f}x" if gained else ""
