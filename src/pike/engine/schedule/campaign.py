"""A campaign: contenders on tasks under one budget, resumable from its folder.

Knows how one begins and goes on from its journals. Does not carry cells out (`scheduler`).
"""

import json
import time
from contextlib import closing
from pathlib import Path

from pike.core.codec import encode
from pike.core.comparison.campaign import CampaignPlan
from pike.engine.output.commit import commit
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.progress import CampaignObserver, snapshot
from pike.engine.schedule.records import ResultTerms
from pike.engine.schedule.scheduler import CampaignWiring, CellWork, Scheduler
from pike.engine.schedule.turns import CellProgress, Turns
from pike.engine.state.watching import rest
from pike.reporting.campaign import CampaignFigures, CellState, busy_seconds, figures_of_run, summarise_campaign
from pike.store import campaigns
from pike.store.campaigns import is_campaign
from pike.store.lock import RunLock, holder
from pike.store.whole import write_text

FIGURES = "campaign.json"
LOOK_SECONDS = 2.0
"""How often the journals of a campaign that another process carries on are looked at."""


async def start_campaign(plan: CampaignPlan, folder: Path, wiring: CampaignWiring | None = None) -> CampaignFigures:
    """Begin a campaign in a new folder and carry it out.

    Raises:
        UserError: the folder holds a campaign already.
        StoreError: the plan, a result or the figures cannot be written.
    """
    campaigns.write_plan(folder, plan)
    return await resume_campaign(folder, wiring)


async def resume_campaign(folder: Path, wiring: CampaignWiring | None = None) -> CampaignFigures:
    """Carry a campaign on from where its journals and results end; what is finished is only read.

    Raises:
        UserError: there is no campaign in `folder`, or another process carries it on.
        StoreError: a result or the figures cannot be written.
    """
    plan = campaigns.read_plan(folder)
    with closing(RunLock(folder, time.time())):
        work = _recalled(plan, folder)
        await Scheduler(work, Turns(plan, work.cells), wiring or CampaignWiring()).run()
        return write_figures(folder)


def write_figures(folder: Path) -> CampaignFigures:
    """Compute the figures of a campaign from its journals and results and write `campaign.json`.

    Raises:
        UserError: there is no campaign in `folder`.
        StoreError: a journal cannot be read, or the file not be written.
    """
    figures = summarise_campaign(folder)
    write_text(folder / FIGURES, json.dumps(encode(figures), indent=1) + "\n")
    return figures


def follow_campaign(folder: Path, observer: CampaignObserver) -> None:
    """Tell how a campaign goes until no process carries it on, at least where it stands now.

    Raises:
        UserError: there is no campaign in `folder`.
        StoreError: a journal cannot be read.
    """
    plan, events = campaigns.read_plan(folder), dict[str, None]()
    while True:
        began = time.monotonic()
        held, work = holder(folder) is not None, _recalled(plan, folder)
        for one in work.cells:
            at = campaigns.run_folder(folder, one.cell.folder)
            one.is_open = held and holder(at) is not None
            failure = campaigns.read_failure(folder, one.cell.folder)
            if failure or one.state is CellState.FINISHED:
                events[f"{one.cell.label}: {failure or 'finished'}"] = None
        observer(snapshot(plan, work.cells, work.earlier_seconds, tuple(events)))
        if not held:
            return
        rest(max(LOOK_SECONDS, time.monotonic() - began))  # a long look leaves the machine to the campaign


def _recalled(plan: CampaignPlan, folder: Path) -> CellWork:
    """The work of a campaign, with what earlier processes left."""
    cells = tuple(CellProgress(cell, index) for index, cell in enumerate(plan.cells()))
    known = campaigns.results_of(folder)
    sessions: list[tuple[float, float]] = []
    for one in cells:
        run = figures_of_run(campaigns.run_folder(folder, one.cell.folder)) if one.cell.contender.searches else None
        result = known.get(one.cell.folder)
        if run is not None:
            one.take_figures(run)
            sessions.extend(run.sessions)
        elif result is not None and result.settled:
            one.state, one.best = CellState.FINISHED, result.speedup
    sources = {one.source for one in plan.contenders if one.measures_winners}
    return CellWork(
        plan,
        cells,
        folder,
        ResultTerms(plan.run.evaluate, commit=commit()),
        winners={source: Histories.read([Path(source)]) for source in sources},
        earlier_seconds=busy_seconds(sessions),
    )


__all__ = ["CampaignWiring", "follow_campaign", "is_campaign", "resume_campaign", "start_campaign", "write_figures"]
