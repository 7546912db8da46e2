"""What people can look at: suites and strategies, a run while it goes on, and the figures of one from its journal.

Knows the records that a terminal or a page shows. Does not know how they look there, and changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from pike import tasks
from pike.api.options import compose_config
from pike.core.task import Task
from pike.engine import Activity, Finalist, Observer, Progress, RunResult
from pike.engine.byhand import is_run
from pike.engine.campaign_progress import CampaignProgress
from pike.engine.catalogue import PresetInfo
from pike.engine.catalogue import presets as known_presets
from pike.engine.estimate import Estimate
from pike.report import Entrant, RunSummary
from pike.report import summarise as summarise_run
from pike.report.campaign import CampaignFigures, CellFigures, CellState
from pike.report.standings import Axis, Cut, Spread

__all__ = [
    "Activity",
    "Axis",
    "CampaignFigures",
    "CampaignProgress",
    "CellFigures",
    "CellState",
    "Cut",
    "Entrant",
    "Estimate",
    "Finalist",
    "Observer",
    "PresetInfo",
    "Progress",
    "RunResult",
    "RunSummary",
    "Spread",
    "find_task",
    "in_suite",
    "is_run",
    "presets",
    "runs_in",
    "suites",
    "summarise",
]


def suites() -> tuple[str, ...]:
    """The names of the suites that are installed."""
    return tasks.suites()


def presets(config: str | Path | None = None) -> tuple[PresetInfo, ...]:
    """Every strategy by name, with what makes it different, those that a configuration file names last.

    Raises:
        UserError: the file, or a strategy in it, cannot be used.
    """
    return known_presets(compose_config("", {"config": config}).strategies)


def in_suite(suite: str) -> tuple[Task, ...]:
    """The tasks of a suite.

    Raises:
        UserError: there is no such suite.
    """
    return tasks.in_suite(suite)


def find_task(name: str) -> Task:
    """The task of that name: `SUITE/ID` or a KernelBench-format file.

    Raises:
        UserError: nothing is found under that name.
    """
    return tasks.resolve(name)


def runs_in(folder: str | Path) -> tuple[Path, ...]:
    """The runs that are direct subfolders of `folder`, by name; none where it does not exist."""
    if not Path(folder).is_dir():
        return ()
    return tuple(sorted(run for run in Path(folder).iterdir() if is_run(run)))


def summarise(folder: str | Path) -> RunSummary:
    """The figures of a run, finished or not, computed from its journal.

    Raises:
        UserError: there is no run in `folder`.
    """
    return summarise_run(Path(folder))
