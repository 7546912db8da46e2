"""A campaign: many runs that share judges, models and one budget, and take turns.

Knows when runs open and close, and that one run's failure is no other's. Does not know who is next (`campaign_turns`),
how a run is carried out (`run`) or how figures are computed (`report`). Every run has its own folder and journal, so
whatever works on a run works on each; what a campaign has spent is read from them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pike import llm
from pike.core.campaign import CampaignPlan
from pike.core.codec import encode
from pike.core.errors import PikeError
from pike.core.task import Task
from pike.engine import originals
from pike.engine.campaign_plan import replaying, replays, task_of
from pike.engine.campaign_progress import CampaignObserver, snapshot
from pike.engine.campaign_shared import SharedClients, SharedExecutor, SharedOriginals
from pike.engine.campaign_turn import Common, Stops, Turn
from pike.engine.campaign_turns import Contestant, Turns
from pike.engine.crew import Connect
from pike.engine.executors import Executor, LocalExecutor
from pike.engine.files import write_text
from pike.engine.interrupt import interrupts
from pike.engine.ledger import Purse
from pike.engine.originals import Original
from pike.engine.result import RunResult
from pike.engine.run import PAUSED, Wiring, resume_run, start
from pike.report.campaign import CampaignFigures, CellState, busy_seconds, figures_of_run, summarise_campaign
from pike.store import campaigns
from pike.store.campaigns import is_campaign
from pike.store.lock import RunLock

FIGURES = "campaign.json"
TICK_SECONDS = 0.5
LAST_EVENTS = 8


@dataclass(frozen=True, slots=True)
class CampaignWiring:
    """The parts of a campaign that can be exchanged; the defaults are the real ones.

    Attributes:
        executor: who judges for all runs; None for judges on this machine.
        connect: opens clients by name.
        load: loads the original model of a task; None where nothing needs it.
        observer: told how it goes.
        handle_signals: take Ctrl-C as a wish to stop cleanly.
    """

    executor: Executor | None = None
    connect: Connect = llm.connect
    load: Callable[[Task], Original] | None = originals.load
    observer: CampaignObserver | None = None
    handle_signals: bool = True


async def start_campaign(plan: CampaignPlan, folder: Path, wiring: CampaignWiring | None = None) -> CampaignFigures:
    """Begin a campaign in a new folder and carry it out.

    Raises:
        UserError: the folder holds a campaign already.
        StoreError: the plan or the figures cannot be written.
    """
    campaigns.write_plan(folder, plan)
    return await resume_campaign(folder, wiring)


async def resume_campaign(folder: Path, wiring: CampaignWiring | None = None) -> CampaignFigures:
    """Carry a campaign on from wherever the journals of its runs end; finished runs are only read.

    Raises:
        UserError: there is no campaign in `folder`, or another process carries it on.
        StoreError: the figures cannot be written.
    """
    plan = campaigns.read_plan(folder)
    lock = RunLock(folder, time.time())
    try:
        return await _Campaign(plan, folder, wiring or CampaignWiring()).conduct()
    finally:
        lock.release()


def write_figures(folder: Path) -> CampaignFigures:
    """Compute the figures of a campaign from its journals and write `campaign.json`.

    Raises:
        UserError: there is no campaign in `folder`.
        StoreError: a journal cannot be read, or the file not be written.
    """
    figures = summarise_campaign(folder)
    write_text(folder / FIGURES, json.dumps(encode(figures), indent=1) + "\n")
    return figures


class _Campaign:
    """One process's part of a campaign."""

    def __init__(self, plan: CampaignPlan, folder: Path, wiring: CampaignWiring) -> None:
        self._plan = plan
        self._folder = folder
        self._wiring = wiring
        self._replayed = replays(plan.run)
        self._earlier_seconds = 0.0
        self._began = time.monotonic()
        self._contestants = tuple(Contestant(cell, index) for index, cell in enumerate(plan.cells()))
        self._stops = Stops()
        self._common = Common(
            Purse(plan.campaign.usd), Turns(plan, self._contestants), self._stops, closing=self._closing
        )
        self._executor = SharedExecutor(wiring.executor or LocalExecutor(plan.run.engine))
        self._clients = SharedClients(wiring.connect)
        most = plan.campaign.concurrency
        self._originals = SharedOriginals(wiring.load, most) if wiring.load else None
        self._open: dict[asyncio.Task[None], Contestant] = {}
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)

    async def conduct(self) -> CampaignFigures:
        self._recall()
        ticking = asyncio.create_task(self._tick())
        try:
            if self._wiring.handle_signals:
                with interrupts(self._stops.first, self._stops.again):
                    await self._take_turns()
            else:
                await self._take_turns()
        finally:
            ticking.cancel()
            await self._clients.end()
            await self._executor.end()
        figures = write_figures(self._folder)
        self._show()
        return figures

    def _recall(self) -> None:
        """Take over what the journals say."""
        sessions: list[tuple[float, float]] = []
        for one in self._contestants:
            run = figures_of_run(campaigns.run_folder(self._folder, one.cell.folder))
            if run is not None:
                one.take_figures(run)
                sessions.extend(run.sessions)
                self._common.purse.put_away(one.usd + one.held_usd)
        self._earlier_seconds = busy_seconds(sessions)

    async def _take_turns(self) -> None:
        try:
            while True:
                self._fill()
                if not self._open:
                    break
                done, _ = await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._open.pop(task).is_open = False
                    task.result()
            self._give_up_the_rest()
        finally:
            # Only a bug gets here with runs open: they stop cleanly before it is raised.
            self._stops.first()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _give_up_the_rest(self) -> None:
        """Runs that the campaign's budget left nothing for."""
        closing = self._closing()
        for one in self._contestants:
            if closing and not self._stops.wished and one.state is CellState.WAITING:
                self._fail(one, f"the campaign's {closing} were spent before it began")

    def _fill(self) -> None:
        while len(self._open) < self._plan.campaign.concurrency and not self._stops.wished:
            one = self._common.turns.next(bool(self._closing()))
            if one is None:
                return
            one.is_open = True
            self._open[asyncio.create_task(self._have_turn(one))] = one

    async def _have_turn(self, one: Contestant) -> None:
        try:
            result = await self._carry_on(one)
        except PikeError as error:
            self._fail(one, str(error))
        else:
            self._note(one, result)
        self._show()

    async def _carry_on(self, one: Contestant) -> RunResult:
        turn = Turn(self._common, one, in_slices=self._replayed is None)
        try:
            return await self._open_run(one, turn)
        finally:
            await turn.end()

    async def _open_run(self, one: Contestant, turn: Turn) -> RunResult:
        cell = one.cell
        folder = campaigns.run_folder(self._folder, cell.folder)
        wiring = Wiring(
            executor=self._executor,
            connect=self._clients.connect,
            load=self._originals.load if self._originals else None,
            handle_signals=False,
            share=turn,
        )
        config = self._plan.config_of(cell)
        if self._replayed is not None:
            config = replaying(config, self._replayed, cell)
            if config.llm.replay_verdicts:
                wiring = replace(wiring, executor=None)
        if one.state is CellState.BEGUN:
            return await resume_run(folder, wiring)
        task = await asyncio.to_thread(task_of, cell, folder)
        return await start(task, config, folder, wiring)

    def _note(self, one: Contestant, result: RunResult) -> None:
        one.reason = result.stopped
        if result.finished:
            one.state, one.best = CellState.FINISHED, result.speedup
            self._events.append(f"{one.cell.label}: finished")
        else:
            one.state = CellState.BEGUN
            if result.stopped not in (PAUSED, "interrupted"):
                self._fail(one, _REASONS.get(result.stopped, f"asking stopped: {result.stopped}"))
                return
        campaigns.write_failure(self._folder, one.cell.folder, "")

    def _fail(self, one: Contestant, reason: str) -> None:
        one.state, one.reason = CellState.FAILED, reason
        self._events.append(f"{one.cell.label}: {reason}")
        with suppress(PikeError):
            # On a full disk the reason is shown all the same, and the journal is what counts.
            campaigns.write_failure(self._folder, one.cell.folder, reason)

    def _closing(self) -> str:
        campaign = self._plan.campaign
        if campaign.queries is not None and self._queries() >= campaign.queries:
            return "queries"
        hours = self._seconds() / 3600.0
        return "hours" if campaign.max_hours is not None and hours >= campaign.max_hours else ""

    def _queries(self) -> int:
        for one in self._contestants:
            one.look()
        return sum(one.queries for one in self._contestants)

    def _seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(TICK_SECONDS)

    def _show(self) -> None:
        if self._wiring.observer is not None:
            self._wiring.observer(snapshot(self._plan, self._contestants, self._seconds(), tuple(self._events)))


_REASONS = {
    "provider": "the model failed several times in a row; resume the campaign when it works again",
    "infra": "the judges failed several times in a row; resume the campaign when the machine works again",
}

__all__ = ["CampaignWiring", "is_campaign", "resume_campaign", "start_campaign", "write_figures"]
