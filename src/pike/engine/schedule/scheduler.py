"""Carries cells out: several are open at once, each is written as it ends, and none ends another.

Knows that what a cell raises is its failure. Does not know which is next (`turns`, `order`).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pike import llm
from pike.core.comparison.campaign import CampaignPlan, Cell
from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result, digest
from pike.core.errors import PikeError
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.engine.executors.choice import executor_of
from pike.engine.executors.contract import Executor
from pike.engine.executors.lent import LentExecutor
from pike.engine.output import originals
from pike.engine.output.originals import OriginalModel
from pike.engine.output.result import RunResult
from pike.engine.run.agents import Connect
from pike.engine.run.interrupt import interrupts
from pike.engine.run.loop import WAITING
from pike.engine.run.phases import INTERRUPTED, PAUSED
from pike.engine.run.run import resume_run, start
from pike.engine.run.seeding import SharedSeeds
from pike.engine.run.wiring import Wiring
from pike.engine.schedule.contenders.candidates import absence, candidate_of, require_device
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.recipe_search import RecipeLimits, keep_history
from pike.engine.schedule.plan import recorded, replaying, replays, task_of
from pike.engine.schedule.progress import CampaignObserver, snapshot
from pike.engine.schedule.records import ResultTerms, of_baselines, of_candidate, of_run
from pike.engine.schedule.shared import Common, SharedClients, SharedOriginals, Slice, Stops
from pike.engine.schedule.turns import CellProgress, Turns
from pike.engine.state.ledger import SharedBudget
from pike.reporting.campaign import CellState
from pike.store import append_result, campaigns

TICK_SECONDS = 0.5
LAST_EVENTS = 8
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CampaignWiring:
    """The parts of a suite or campaign that can be exchanged; the defaults are the real ones.

    Attributes:
        executor: judges for all cells; None for judges on this machine.
        connect: opens clients by name.
        load: loads the original model of a task; None if nothing needs it.
        observer: told how it goes.
        on_result: told each result as soon as it is kept.
        handle_signals: take Ctrl-C as a wish to stop cleanly.
    """

    executor: Executor | None = None
    connect: Connect = llm.connect
    load: Callable[[Task], OriginalModel] | None = originals.load
    observer: CampaignObserver | None = None
    on_result: Callable[[Result], None] = lambda _: None
    handle_signals: bool = True


class Policy(Protocol):
    """Decides which cell opens next."""

    def next(self, closing: bool) -> CellProgress | None:
        """The cell that gets a turn now, if any; `closing` if nothing new may begin."""


@dataclass(frozen=True, slots=True)
class CellWork:
    """What is to be carried out.

    Attributes:
        plan: what all cells have in common.
        cells: every cell with its progress.
        folder: gets results and, under `runs/`, a folder for each run.
        terms: what results say about where they were measured.
        limits: how far a search over recipes goes; None for as far as the strategy and the budget
            say.
        winners: histories by the contender's source, for contenders that measure winners again.
        earlier_seconds: how long earlier processes had a cell open.
    """

    plan: CampaignPlan
    cells: tuple[CellProgress, ...]
    folder: Path
    terms: ResultTerms
    limits: RecipeLimits | None = None
    winners: Mapping[str, Histories] = field(default_factory=dict)
    earlier_seconds: float = 0.0


class Scheduler:
    """One process's part of a suite or campaign.

    Args:
        work: what is to be carried out.
        policy: decides which cell is next; `Turns` also gives runs slices.
        wiring: the parts that can be exchanged.
        seconds: after how much time everything is stopped; None for no limit.
    """

    def __init__(self, work: CellWork, policy: Policy, wiring: CampaignWiring, seconds: float | None = None) -> None:
        plan = work.plan
        self._work = work
        self._plan = plan
        self._policy = policy
        self._wiring = wiring
        self._limit_seconds = seconds
        self._replayed = replays(plan.run)
        self._began = time.monotonic()
        self._stops = Stops()
        turns = policy if isinstance(policy, Turns) and self._replayed is None else None
        self._common = Common(SharedBudget(plan.campaign.usd), self._stops, self._closing, turns)
        self._owner = wiring.executor or executor_of(plan.run.engine)
        self._executor = LentExecutor(self._owner)
        self._clients = SharedClients(wiring.connect)
        self._originals = SharedOriginals(wiring.load, plan.campaign.concurrency) if wiring.load else None
        self._seeds = SharedSeeds()
        self._open: dict[asyncio.Task[None], CellProgress] = {}
        self._absent: dict[str, str] = {}
        self._events: deque[str] = deque(maxlen=LAST_EVENTS)
        self._date = time.strftime("%Y%m%d")
        for one in work.cells:
            self._common.shared_budget.put_away(one.usd + one.held_usd)

    async def run(self) -> None:
        """Carry out what is left, until it is done, the budget or the time is spent, or Ctrl-C.

        Raises:
            StoreError: a result cannot be kept; what was written is safe.
        """
        ticking = asyncio.create_task(self._tick())
        loop = asyncio.get_running_loop()
        deadline = None if self._limit_seconds is None else loop.call_later(self._limit_seconds, self._stops.now)
        signals = interrupts(self._stops.first, self._stops.again) if self._wiring.handle_signals else nullcontext()
        try:
            with signals:
                await self._take_turns()
        finally:
            if deadline is not None:
                deadline.cancel()
            ticking.cancel()
            if self._work.limits is not None:
                self._work.limits.explorer.close()
            await self._clients.end()
            await self._owner.aclose()
        self._show()

    async def _take_turns(self) -> None:
        try:
            while True:
                self._fill()
                if not self._open:
                    break
                done, _ = await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._open.pop(task).is_open = False
                    if not task.cancelled():
                        task.result()
            self._give_up_the_rest()
        finally:
            # Only a full disk or a bug gets here with cells open: they stop cleanly before it is raised.
            self._stops.first()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _fill(self) -> None:
        while len(self._open) < self._plan.campaign.concurrency and not self._stops.wished:
            one = self._policy.next(bool(self._closing()))
            if one is None:
                return
            one.is_open = True
            self._open[asyncio.create_task(self._have_turn(one))] = one

    def _give_up_the_rest(self) -> None:
        """Cells that the campaign's budget left nothing for."""
        closing = self._closing()
        for one in self._work.cells:
            if closing and not self._stops.wished and one.state is CellState.WAITING:
                self._fail(one, f"the campaign's {closing} were spent before it began")

    async def _have_turn(self, one: CellProgress) -> None:
        """The boundary of a cell: whatever it raises is its own failure; a bug is logged too."""
        try:
            result = await (self._search(one) if one.cell.contender.searches else self._measure(one))
        except PikeError as error:
            result = await self._failed(one, str(error))
        except Exception as error:
            _LOG.exception("The cell %s failed by a bug", one.cell.label)
            result = await self._failed(one, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if result is not None:
            self._keep(one, result)
        self._show()

    async def _measure(self, one: CellProgress) -> Result:
        """The result of a cell with a fixed candidate."""
        cell, terms = one.cell, self._work.terms
        if self._replayed is not None:
            return recorded(self._replayed, cell)
        task = await asyncio.to_thread(task_of, cell.task, self._folder_of(cell))
        device = await self._executor.facts(self._plan.run.evaluate.device)
        require_device(cell.contender, device.is_cuda)
        winners = self._work.winners.get(cell.contender.source, Histories())
        candidate = candidate_of(cell.contender, task, cell.precision, winners)
        blank = terms.blank(cell, task, device)
        missing = candidate.missing or self._absent.get(cell.contender.name, "")
        if missing:
            return replace(blank, missing=missing)
        if candidate.original:
            return replace(blank, missing="", original=True)
        blank = replace(blank, candidate_digest=digest(candidate.source))
        place = blank.provenance
        caches = ContenderKind.BASELINE.value if place.shared_caches else ""
        request = EvaluationRequest(task, candidate.source, place.options, place.effort, caches=caches)
        began = time.monotonic()
        evaluation = await self._judged(request)
        if missing := absence(cell.contender, evaluation):
            self._absent[cell.contender.name] = missing
            return replace(blank, missing=missing)
        return of_candidate(blank, candidate, evaluation, time.monotonic() - began)

    async def _judged(self, request: EvaluationRequest) -> Evaluation:
        """The verdict; the cell is cancelled if everything is to stop at once."""
        current = asyncio.current_task()
        assert current is not None
        with self._stops.listen(lambda: None, current.cancel):
            return await self._executor.evaluate(request)

    async def _search(self, one: CellProgress) -> Result | None:
        """One turn of a run; its result if that was the last."""
        turn = Slice(self._common, one)
        try:
            found = await self._open_run(one, turn)
        finally:
            await turn.end()
        one.reason = found.stopped
        if not found.finished:
            one.state, one.waits = CellState.BEGUN, found.stopped == WAITING
            if found.stopped not in (PAUSED, INTERRUPTED, WAITING):
                reason = _REASONS.get(found.stopped, f"asking stopped: {found.stopped}")
                return await self._failed(one, reason)
            campaigns.write_failure(self._work.folder, one.cell.folder, "")
            return None
        source = found.best.source if found.best else ""
        if one.cell.contender.kind is ContenderKind.RECIPES:
            path = self._work.folder / f"histories-{self._date}.jsonl"
            keep_history(path, one.cell.precision.value, found, source)
        task = await asyncio.to_thread(task_of, one.cell.task, self._folder_of(one.cell))
        result = of_run(self._work.terms.blank(one.cell, task, found.device), found, source)
        for beside in of_baselines(result, found):
            self._write(beside)
        return result

    async def _open_run(self, one: CellProgress, turn: Slice) -> RunResult:
        cell, folder = one.cell, self._folder_of(one.cell)
        wiring = Wiring(
            executor=self._executor,
            connect=self._clients.connect,
            load=self._originals.load if self._originals else None,
            handle_signals=False,
            share=turn,
            seeds=self._seeds,
        )
        task = await asyncio.to_thread(task_of, cell.task, folder)
        config = self._plan.config_of(cell)
        if self._replayed is not None:
            config = replaying(config, self._replayed, cell)
            wiring = replace(wiring, executor=None if config.llm.replay_verdicts else self._executor)
        elif self._work.limits is not None and cell.contender.kind is ContenderKind.RECIPES:
            config = self._work.limits.configure(config)
            device = await self._executor.facts(config.evaluate.device)
            agents = self._work.limits.agents(task, device, config.evaluate)
            wiring = replace(wiring, agents=agents, load=None)
        if one.state is CellState.BEGUN:
            return await resume_run(folder, wiring)
        return await start(task, config, folder, wiring)

    def _keep(self, one: CellProgress, result: Result) -> None:
        """Write a result, and what it means for its cell."""
        self._write(result)
        if result.settled or (one.state is not CellState.FAILED and one.cell.contender.searches):
            one.state, one.best = CellState.FINISHED, result.speedup
            self._events.append(f"{one.cell.label}: finished")
            campaigns.write_failure(self._work.folder, one.cell.folder, "")
        elif one.state is not CellState.FAILED:
            status = f"{result.evaluation.status.value}: {result.evaluation.reason}" if result.evaluation else ""
            self._fail(one, result.missing or status)

    def _write(self, result: Result) -> None:
        append_result(self._work.folder / f"results-{self._date}.jsonl", result)
        self._wiring.on_result(result)

    async def _failed(self, one: CellProgress, reason: str) -> Result | None:
        """Note a failure; its result, if anything is known of the device."""
        self._fail(one, reason)
        try:
            device = await self._executor.facts(self._plan.run.evaluate.device) if self._replayed is None else None
        except PikeError:
            device = None
        return replace(self._work.terms.blank(one.cell, None, device), missing=reason) if device else None

    def _fail(self, one: CellProgress, reason: str) -> None:
        one.state, one.reason = CellState.FAILED, reason
        self._events.append(f"{one.cell.label}: {reason}")
        with suppress(PikeError):
            # On a full disk the reason is shown all the same, and the journal is what counts.
            campaigns.write_failure(self._work.folder, one.cell.folder, reason)

    def _folder_of(self, cell: Cell) -> Path:
        return campaigns.run_folder(self._work.folder, cell.folder)

    def _closing(self) -> str:
        campaign = self._plan.campaign
        if campaign.queries is not None and self._queries() >= campaign.queries:
            return "queries"
        hours = self._seconds() / 3600.0
        return "hours" if campaign.max_hours is not None and hours >= campaign.max_hours else ""

    def _queries(self) -> int:
        for one in self._work.cells:
            one.look()
        return sum(one.queries for one in self._work.cells)

    def _seconds(self) -> float:
        return self._work.earlier_seconds + time.monotonic() - self._began

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(TICK_SECONDS)

    def _show(self) -> None:
        if self._wiring.observer is not None:
            self._wiring.observer(snapshot(self._plan, self._work.cells, self._seconds(), tuple(self._events)))


_REASONS = {
    "provider": "the model failed several times in a row; resume the campaign when it works again",
    "infra": "the judges failed several times in a row; resume the campaign when the machine works again",
}
