"""Measures baselines with the same judge that measures candidates.

Knows the order of the opponents, what is asked of a judge, and which refusals only say that something is not installed.
Does not know how a judge works (`evaluate`) nor where results are kept (`engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pike.baselines.sources import Baseline, Way, for_device
from pike.baselines.write import source
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.core.task import Task


class Judge(Protocol):
    """What is needed of a judge; `evaluate.client.JudgeClient` is one."""

    def evaluate(self, request: EvaluationRequest, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """The verdict on one candidate."""
        ...

    def facts(self, device: str) -> DeviceFacts:
        """What `device` is."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """The verdict on one baseline; its speedup is over eager execution, as everywhere."""

    baseline: Baseline
    evaluation: Evaluation


def measure(
    judge: Judge,
    task: Task,
    options: EvaluateOptions,
    baselines: Iterable[Baseline] | None = None,
    effort: Effort = Effort.FINAL,
) -> Iterator[Measured]:
    """Judge the opponents on `task` one after the other, and yield each verdict as it comes.

    Args:
        judge: who measures.
        task: the problem.
        options: the terms, the same as the candidates'; each opponent does what they allow (`precision`).
        baselines: which opponents; None for all that are distinct on the device.
        effort: how much measuring; thorough by default, because these numbers are reported.
    """
    chosen = for_device(judge.facts(options.device).is_cuda) if baselines is None else tuple(baselines)
    for baseline in chosen:
        request = EvaluationRequest(task, source(baseline, task, options.precision), options, effort)
        yield Measured(baseline, judge.evaluate(request))


_NOT_IMPORTED = "torch_tensorrt cannot be imported"


def missing_here(baseline: Baseline, evaluation: Evaluation) -> str:
    """Why a baseline cannot be measured on this machine, empty where it was.

    Asked of the verdict, because only the child, in its sandbox, knows what it can import.
    """
    if baseline.way is not Way.TENSORRT or evaluation.status is not Status.BUILD_ERROR:
        return ""
    lines = f"{evaluation.reason}\n{evaluation.log}".splitlines()
    found = next((line for line in lines if _NOT_IMPORTED in line), "")
    return found[found.index(_NOT_IMPORTED) :] + " (extra tensorrt)" if found else ""
