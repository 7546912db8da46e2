"""The records that people look at: strategies, a run while it goes on, its figures afterwards.

Knows where each comes from. Does not know how it looks on a terminal or a page.
"""

from pathlib import Path

from pike.api.options import compose_config
from pike.engine import Activity as Activity
from pike.engine import ExternalStatus as ExternalStatus
from pike.engine import MoveReply as MoveReply
from pike.engine import Observer as Observer
from pike.engine import Progress as Progress
from pike.engine import Question as Question
from pike.engine import RunResult as RunResult
from pike.engine.external.external_run import is_run as is_run
from pike.engine.schedule.progress import CampaignProgress as CampaignProgress
from pike.engine.tools.catalogue import PresetInfo as PresetInfo
from pike.engine.tools.catalogue import presets as known_presets
from pike.engine.tools.doctor import Check as Check
from pike.engine.tools.estimate import Estimate as Estimate
from pike.engine.tools.self_test import SelfTestResult as SelfTestResult
from pike.exchange import Exported as Exported
from pike.reporting import ReportedCandidate as ReportedCandidate
from pike.reporting import RunSummary as RunSummary
from pike.reporting import has_results as has_results
from pike.reporting import require_texts as require_texts
from pike.reporting import summarise as summarise
from pike.reporting.campaign import CampaignFigures as CampaignFigures
from pike.reporting.campaign import CellFigures as CellFigures
from pike.reporting.campaign import CellState as CellState
from pike.reporting.figures.entry import FigureEntry as FigureEntry
from pike.reporting.follow import FollowedFolder as FollowedFolder
from pike.reporting.follow import FollowedRun as FollowedRun
from pike.reporting.standings import FAST as FAST
from pike.reporting.standings import Axis as Axis
from pike.reporting.standings import Cut as Cut
from pike.reporting.standings import Spread as Spread
from pike.reporting.standings import Standing as Standing
from pike.reporting.view.index_view import index_view as index_view
from pike.reporting.view.shell import as_json as as_json
from pike.reporting.view.shell import page as page
from pike.reporting.view.shell import policy as policy
from pike.tasks import in_suite as in_suite
from pike.tasks import resolve
from pike.tasks import suites as suites

find_task = resolve


def presets(config: str | Path | None = None) -> tuple[PresetInfo, ...]:
    """List every strategy with its differences, those of a configuration file last.

    Raises:
        UserError: the file, or a strategy in it, cannot be used.
    """
    return known_presets(compose_config("", {"config": config}).strategies)
