"""The records that people look at: strategies, a run while it goes on, its figures afterwards.

Knows where each comes from. Does not know how it looks on a terminal or a page.
"""

from pathlib import Path

from pike.api.options import compose_config
from pike.engine import Activity, ExternalStatus, MoveReply, Observer, Progress, Question, RunResult
from pike.engine.external.external_run import is_run
from pike.engine.schedule.progress import CampaignProgress
from pike.engine.tools.catalogue import PresetInfo
from pike.engine.tools.catalogue import presets as known_presets
from pike.engine.tools.doctor import Check
from pike.engine.tools.estimate import Estimate
from pike.engine.tools.self_test import SelfTestResult
from pike.exchange import Exported
from pike.reporting import ReportedCandidate, RunSummary, has_results, summarise
from pike.reporting.campaign import CampaignFigures, CellFigures, CellState
from pike.reporting.figures.entry import FigureEntry
from pike.reporting.follow import FollowedFolder, FollowedRun
from pike.reporting.standings import FAST, Axis, Cut, Spread
from pike.reporting.view import index_view, page, policy
from pike.reporting.view.shell import as_json
from pike.tasks import in_suite, suites
from pike.tasks import resolve as find_task

__all__ = [
    "FAST",
    "Activity",
    "Axis",
    "CampaignFigures",
    "CampaignProgress",
    "CellFigures",
    "CellState",
    "Check",
    "Cut",
    "Estimate",
    "Exported",
    "ExternalStatus",
    "FigureEntry",
    "FollowedFolder",
    "FollowedRun",
    "MoveReply",
    "Observer",
    "PresetInfo",
    "Progress",
    "Question",
    "ReportedCandidate",
    "RunResult",
    "RunSummary",
    "SelfTestResult",
    "Spread",
    "as_json",
    "find_task",
    "has_results",
    "in_suite",
    "index_view",
    "is_run",
    "page",
    "policy",
    "presets",
    "suites",
    "summarise",
]


def presets(config: str | Path | None = None) -> tuple[PresetInfo, ...]:
    """List every strategy with its differences, those of a configuration file last.

    Raises:
        UserError: the file, or a strategy in it, cannot be used.
    """
    return known_presets(compose_config("", {"config": config}).strategies)
