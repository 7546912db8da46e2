"""What there is to beat: eager PyTorch, `torch.compile` and others on models, judged like any candidate.

Knows how targets and options become a measurement. Does not know how it is made (`engine`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

from pike import tasks
from pike.api.options import Options, compose_config
from pike.api.targets import task_of, words_for
from pike.core.errors import UserError
from pike.core.evaluation import Effort
from pike.core.results import Result
from pike.core.task import Task
from pike.engine.opponents import Baseline, Measured, measure_baselines
from pike.engine.survey import Survey, carry_out
from pike.report.results import Column, ResultsTable, tables

__all__ = ["Baseline", "Column", "Measured", "ResultsTable", "Survey", "baselines", "survey", "tasks_named"]


def baselines(
    target: Any,
    names: Sequence[str] | None = None,
    *,
    example_inputs: Any = None,
    effort: Effort = Effort.FINAL,
    **options: Unpack[Options],
) -> tuple[Measured, ...]:
    """The verdicts on the baselines of a model.

    Args:
        target: as for `optimize`.
        names: which ones, for example `eager`, `compile`, `compile:max-autotune`; None for all that are distinct
            on the device.
        example_inputs: for a module.
        effort: how much measuring; thorough by default, as for the result of a run.
        **options: `device`, `tolerance`, `precision`, `config` and `settings` count here; see `Options`.

    Raises:
        UserError: the target, an option or a name cannot be used.
        InfraError: the judge died.
    """
    config = compose_config(words_for(target), options)
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        return measure_baselines(task_of(target, example_inputs, Path(folder)), config.evaluate, names, effort)


def survey(
    targets: Sequence[str],
    wanted: Survey,
    out: str | Path,
    *,
    on_result: Callable[[Result], None] = lambda _: None,
    **options: Unpack[Options],
) -> tuple[ResultsTable, ...]:
    """Measure opponents on many tasks and keep every result as soon as it is there.

    What `out` holds already is not measured again: the same candidate on the same task on the same kind of device, with
    the same versions and terms. So whatever was interrupted goes on with the same call.

    Args:
        targets: suites, tasks of them, files.
        wanted: what is to be measured.
        out: a folder, which gets one JSON file for each task and precision.
        on_result: told each result, known or new, from another thread.
        **options: `device`, `tolerance`, `config` and `settings` count here; see `Options`.

    Returns:
        A table for each suite and precision.

    Raises:
        UserError: a target, an option or a name cannot be used.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    config = compose_config(" ".join(targets), options)
    return tables(carry_out(wanted, tasks_named(targets), config, Path(out), on_result))


def tasks_named(targets: Iterable[str]) -> tuple[Task, ...]:
    """The tasks of suites, and single ones, each once.

    Raises:
        UserError: there is no suite or task of that name.
    """
    found: dict[str, Task] = {}
    for target in targets:
        suite = tasks.suite_of(target)
        for task in suite.tasks() if suite is not None else [tasks.resolve(target)]:
            found[task.id] = task
    if not found:
        raise UserError("Name at least one suite or task, for example level3-pike or level3-pike/9")
    return tuple(found.values())
