"""Opponents on many tasks, from what is wanted to a folder of results.

Knows what is kept where and what need not be measured again. Does not know how names become tasks (`tasks`), how
opponents are written (`opponents`) or how the work is shared out (`contest`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pike
from pike import store
from pike.core.config import RunConfig
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, Precision
from pike.core.results import Provenance, Result
from pike.core.task import Task
from pike.engine.commit import commit
from pike.engine.contest import Contest
from pike.engine.executors.local import Judge, judge_count
from pike.engine.opponents import Notebook, batches, device_facts, opponents_named


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be measured on each of many tasks.

    Attributes:
        names: baselines and `published:FOLDER`; None for every baseline that is distinct on the device.
        precisions: the declared arithmetic, each on its own.
        effort: how much measuring.
        again: measure also what the folder holds already.
        command: what was typed, for the record.
    """

    names: tuple[str, ...] | None = None
    precisions: tuple[Precision, ...] = (Precision.SAME,)
    effort: Effort = Effort.FINAL
    again: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class Ways:
    """What a survey works with; replaced in tests.

    Attributes:
        facts: what a device is.
        start: makes one judge; None for a real one.
    """

    facts: Callable[[str], DeviceFacts] = device_facts
    start: Callable[[], Judge] | None = None


def carry_out(
    wanted: Survey,
    tasks: Sequence[Task],
    config: RunConfig,
    out: Path,
    on_result: Callable[[Result], None] = lambda _: None,
    ways: Ways | None = None,
) -> tuple[Result, ...]:
    """Measure, and keep every result as soon as it is there; returns all of them, the known ones too.

    Args:
        wanted: what is to be measured.
        tasks: on which tasks.
        config: the terms of the judge, and how many of them.
        out: a folder, which gets one JSON file for each task and precision.
        on_result: told each result, known or new, from another thread.
        ways: what it works with.

    Raises:
        UserError: a name or the device cannot be used.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    ways = ways or Ways()
    device = ways.facts(config.evaluate.device)
    opponents = opponents_named(wanted.names, device.is_cuda)
    folder = store.ResultFolder(out)
    known = store.read_results([out]) if out.is_dir() and not wanted.again else ()
    seats = max(1, min(judge_count(config.engine, device), len(tasks) * len(wanted.precisions)))
    notebook = Notebook(place_of(config, device, wanted.effort, wanted.command, seats), known)
    found: list[Result] = []

    def keep(result: Result) -> None:
        if result not in known:
            folder.put(result)
        found.append(result)
        on_result(result)

    Contest(seats, keep, ways.start).run(batches(tasks, wanted.precisions, opponents, notebook))
    return tuple(found)


def place_of(config: RunConfig, device: DeviceFacts, effort: Effort, command: str, judges: int) -> Provenance:
    """Where and how results are measured, but for their dates and precisions."""
    options = replace(config.evaluate, device=device.device)
    return Provenance(device, options, effort, pike.__version__, commit(), command, judges=judges)
