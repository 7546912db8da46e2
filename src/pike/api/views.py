"""What people can look at: suites and strategies, a run while it goes on, and the figures of one from its journal.

Knows the records that a terminal or a page shows. Does not know how they look there, and changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from pike import tasks
from pike.core.task import Task
from pike.engine import Activity, Finalist, Observer, Progress, RunResult
from pike.engine.catalogue import PresetInfo, presets
from pike.engine.estimate import Estimate
from pike.report import Entrant, RunSummary
from pike.report import summarise as summarise_run

__all__ = [
    "Activity",
    "Entrant",
    "Estimate",
    "Finalist",
    "Observer",
    "PresetInfo",
    "Progress",
    "RunResult",
    "RunSummary",
    "in_suite",
    "presets",
    "suites",
    "summarise",
]


def suites() -> tuple[str, ...]:
    """The names of the suites that are installed."""
    return tasks.suites()


def in_suite(suite: str) -> tuple[Task, ...]:
    """The tasks of a suite.

    Raises:
        UserError: there is no such suite.
    """
    return tasks.in_suite(suite)


def summarise(folder: str | Path) -> RunSummary:
    """The figures of a run, finished or not, computed from its journal.

    Raises:
        UserError: there is no run in `folder`.
    """
    return summarise_run(Path(folder))
