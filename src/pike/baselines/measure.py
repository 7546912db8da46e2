"""Measures baselines with the same judge that measures candidates.

Knows the order of the opponents and what is asked of a judge. Does not know how a judge works (`evaluate`) nor where
results are kept (`engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pike.baselines.sources import Baseline, for_device, source
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest
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
        options: the terms, the same as the candidates'.
        baselines: which opponents; None for all that are distinct on the device.
        effort: how much measuring; thorough by default, because these numbers are reported.
    """
    chosen = for_device(judge.facts(options.device).is_cuda) if baselines is None else tuple(baselines)
    for baseline in chosen:
        request = EvaluationRequest(task, source(baseline, task), options, effort)
        yield Measured(baseline, judge.evaluate(request))
