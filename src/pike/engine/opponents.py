"""Measures what there is to beat on a task: eager execution and `torch.compile`, through the same judge.

Knows how baselines are chosen by name. Does not know how they are written (`baselines`) or judged (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pike.baselines import BASELINES, Baseline, Measured, measure
from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.evaluation import Effort, EvaluateOptions
from pike.core.task import Task
from pike.evaluate.client import JudgeClient

__all__ = ["Baseline", "Measured", "measure_baselines"]


def measure_baselines(
    task: Task, options: EvaluateOptions, names: Sequence[str] | None = None, effort: Effort = Effort.FINAL
) -> tuple[Measured, ...]:
    """The verdicts on baselines, in order.

    Args:
        task: the problem.
        options: the terms, the same as the candidates'.
        names: which baselines, for example `compile`; None for all that are distinct on the device.
        effort: how much measuring.

    Raises:
        UserError: there is no baseline of that name.
        InfraError: the judge died.
    """
    chosen = None if names is None else [_named(name) for name in names]
    judge = JudgeClient()
    try:
        return tuple(measure(judge, task, options, chosen, effort))
    finally:
        judge.close()


def _named(name: str) -> Baseline:
    known = {baseline.name: baseline for baseline in BASELINES}
    if name not in known:
        raise UserError(f"There is no baseline '{name}'{nearest(name, known)}")
    return known[name]
