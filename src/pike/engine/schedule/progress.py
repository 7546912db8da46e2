"""What a campaign is doing right now, as a record to be shown.

Knows how a snapshot is computed from the cells. Does not know terminals or pages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pike.core.comparison.campaign import CampaignPlan
from pike.engine.schedule.turns import CellProgress
from pike.reporting.campaign import CellState
from pike.reporting.standings import clamped_geomean


@dataclass(frozen=True, slots=True)
class ContenderProgress:
    """One contender's row.

    Attributes:
        name: the contender.
        runs: how many it has.
        finished: of them.
        failed: of them, for now.
        queries: asked by all of them.
        usd: spent by all of them.
        geomean: clamped, over all of them, of the best so far.
    """

    name: str
    runs: int
    finished: int
    failed: int
    queries: int
    usd: float
    geomean: float


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that has its turn: its label, queries asked and best speedup so far."""

    label: str
    queries: int
    best: float | None


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """A snapshot.

    Attributes:
        rows: every contender.
        open: the runs that have their turn.
        queries: asked by all runs.
        most_queries: the most that can be asked: the campaign's limit, or the runs' own together.
        usd: spent by all runs.
        most_usd: the campaign's limit, None for none.
        seconds: time in which a run was open, earlier processes included.
        events: what happened, one line each, oldest first; the last few.
    """

    rows: tuple[ContenderProgress, ...]
    open: tuple[OpenRun, ...]
    queries: int
    most_queries: int
    usd: float
    most_usd: float | None
    seconds: float
    events: tuple[str, ...]


CampaignObserver = Callable[[CampaignProgress], None]
"""Called in the campaign's thread, every now and then and whenever a run's turn ends; must return
quickly."""


def snapshot(
    plan: CampaignPlan, cells: Sequence[CellProgress], seconds: float, events: Sequence[str]
) -> CampaignProgress:
    """The campaign as it stands."""
    for one in cells:
        one.look()
    own = plan.run.budget.queries * sum(one.cell.contender.searches_with_models for one in cells)
    limit = plan.campaign.queries
    return CampaignProgress(
        rows=tuple(_row(name, cells) for name in plan.columns()),
        open=tuple(OpenRun(one.cell.label, one.queries, one.best) for one in cells if one.is_open),
        queries=sum(one.queries for one in cells),
        most_queries=own if limit is None else min(own, limit),
        usd=sum(one.usd for one in cells),
        most_usd=plan.campaign.usd,
        seconds=seconds,
        events=tuple(events),
    )


def _row(name: str, cells: Sequence[CellProgress]) -> ContenderProgress:
    runs = [one for one in cells if one.cell.column == name]
    return ContenderProgress(
        name=name,
        runs=len(runs),
        finished=sum(one.state is CellState.FINISHED for one in runs),
        failed=sum(one.state is CellState.FAILED for one in runs),
        queries=sum(one.queries for one in runs),
        usd=sum(one.usd for one in runs),
        geomean=clamped_geomean(one.best for one in runs),
    )
