"""The phases of a run: seed the library, search, measure the finalists again, write the results.

Knows what each phase needs, and how a run stops between or within phases. Does not know the life of
a step (`loop`) or money (`ledger`).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pike import search
from pike.core import figures
from pike.core.agent import Agent
from pike.core.errors import StoreError
from pike.core.events import Finished, Stopped
from pike.core.step import Role, Strategy
from pike.engine.executors.contract import JudgedElsewhere
from pike.engine.executors.pool import WorkerPool
from pike.engine.output import outputs
from pike.engine.output.borrowed import BorrowedLines
from pike.engine.output.result import RunResult, result_of, shared_processor
from pike.engine.run import seeding
from pike.engine.run.agents import recipe_agent
from pike.engine.run.configuration import baseline_sources
from pike.engine.run.external_answers import ExternalAnswers, ExternalPace
from pike.engine.run.finalists import measure_again, winner
from pike.engine.run.interrupt import interrupts
from pike.engine.run.judging import Judging, NoTimeLeft
from pike.engine.run.loop import ELSEWHERE, Search, SearchParts
from pike.engine.run.outage import PATIENCE
from pike.engine.run.wiring import OpenParts, Wiring
from pike.engine.state.journal_writer import JournalWriter
from pike.engine.state.ledger import Ledger
from pike.engine.state.pace import FreePace, Pace, RecordedPace
from pike.engine.state.timetable import Timetable, kept_seconds
from pike.llm import EXTERNAL, ExternalClient

INTERRUPTED = "interrupted"
PAUSED = "paused"
"""Why a run stops whose campaign lets other runs go first; it has nothing in flight."""


class Phases:
    """One process's part of a run."""

    def __init__(
        self, writer: JournalWriter, strategy: Strategy, parts: OpenParts, wiring: Wiring, folder: Path
    ) -> None:
        self._writer = writer
        self._state = writer.state
        self._strategy = strategy
        self._parts = parts
        self._wiring = wiring
        self._folder = folder
        self._began = parts.began
        self._earlier_seconds = writer.board.earlier_seconds = writer.state.seconds
        self._timetable = Timetable(writer.state, self._elapsed_seconds)
        self._judging = Judging(parts.executor, writer.state, self._timetable)
        self._search: Search | None = None
        self._phase: asyncio.Task[Any] | None = None
        self._interrupted = threading.Event()
        self._notes: list[str] = []
        self._loses: Callable[[int], bool] = lambda _: False

    def compare_device(self) -> None:
        """Add a note if the run goes on with more or fewer threads.

        Raises:
            UserError: it began on another device.
        """
        then, now = self._state.device, self._parts.device
        then.require_same(now)
        if then.threads != now.threads:
            self._notes.append(
                f"The run began with {then.threads} threads and was continued with {now.threads}: "
                "its times do not compare"
            )

    def compare_prompts(self, now: str) -> None:
        """Add a note if the run goes on with other prompts; older journals do not say theirs."""
        then = self._state.started.prompts if self._state.started else ""
        if then and then != now:
            self._notes.append(f"The run began with prompts {then} and was continued with prompts {now}")

    async def conduct(self) -> RunResult:
        """Carry the run out, from wherever its journal ends."""
        try:
            try:
                with self._stops():
                    await self._phases()
            finally:
                await self._writer.drain()
            result = result_of(self._state, self._folder, self._elapsed_seconds(), tuple(self._notes))
            outputs.write(self._folder, self._state.task, result, self._parts.original)
        except StoreError as error:
            lost = self._state.accounts.in_flight
            again = (
                f"{figures.plural(lost, 'answer')} in flight could not be kept: a resume asks again. " if lost else ""
            )
            what = f"{error}. {again}What was written is safe; continue with: pike resume {self._folder}"
            raise StoreError(what) from error
        self._writer.board.enter("done")
        return result

    def _stops(self) -> AbstractContextManager[None]:
        """While it lasts, Ctrl-C or the campaign can stop the run."""
        if self._wiring.share is not None:
            return self._wiring.share.stops(self._stop_cleanly, self._stop_at_once)
        return interrupts(self._stop_cleanly, self._stop_at_once) if self._wiring.handle_signals else nullcontext()

    async def _phases(self) -> None:
        if self._wiring.share is not None:
            self._wiring.share.opened(self._state)
        if shared := shared_processor(self._state):
            self._writer.board.note(shared)
        agents, recipes = self._agents()
        if recipes is not None and self._to_be_seeded():
            self._writer.board.enter("seeding")
            seeds = self._wiring.seeds or seeding.SharedSeeds()
            judging = seeding.admit_recipes(self._writer, self._judging, self._strategy, recipes, seeds)
            if not await self._in_phase(judging):
                return
        self._writer.board.enter("searching")
        if (left := self._timetable.search_seconds_left) is not None:
            kept = figures.duration(kept_seconds(self._state))
            self._writer.board.note(f"{figures.duration(left)} for the search, {kept} are kept for the finalists")
        self._search = Search(self._search_parts(agents))
        completed = await self._in_phase(self._search.run())
        reason = self._search.outcome
        self._search = None
        if completed and not reason:
            self._writer.record(Stopped(PAUSED))
        if not completed or not Stopped(reason).for_good:
            return
        self._writer.board.enter("measuring")
        if await self._in_phase(self._measure_again()) and not self._state.finished:
            self._writer.record(Stopped("infra"))
            self._notes.append("The judges failed while the finalists were measured again")

    async def _measure_again(self) -> None:
        """Measure the finalists for which there is time."""
        try:
            state = self._state
            beside = baseline_sources(state.config, state.task, state.device)
            await measure_again(self._writer, self._judging, beside)
        except NoTimeLeft:
            measured = figures.plural(len(self._state.finals), "finalist")
            self._notes.append(f"There was time to measure {measured} again")
            self._writer.record(Finished(winner(self._state.finals)))

    def _agents(self) -> tuple[Mapping[Role, Agent], Agent | None]:
        """The agent of each role, and the recipe agent where one is used."""
        agents = self._parts.agents
        if agents is None:
            return self._wiring.agents or {}, None
        agents.confine(self._folder, self._state.task)
        config = self._state.config
        used = self._parts.original is not None and agents.uses_recipes
        recipes = recipe_agent(self._parts.explorer, self._state) if used else None
        shared_budget = self._wiring.share.shared_budget if self._wiring.share else None
        ledger = Ledger(config.budget, self._state.accounts, self._writer.keep, shared_budget)
        self._loses = ledger.loses
        return agents.by_role(self._state, ledger, recipes), recipes

    def _to_be_seeded(self) -> bool:
        state = self._state
        # Who asks for prompts waits for them, maybe on a machine without the device: some seeds are enough then.
        enough = bool(state.solutions) and self._wiring.external is not None
        return state.config.llm.seed_recipes and not state.steps and not state.closing and not enough

    def _search_parts(self, agents: Mapping[Role, Agent]) -> SearchParts:
        pace = self._pace()
        patience = 0 if pace.limit is None else PATIENCE
        borrowed = BorrowedLines(self._folder, self._state.task.source, self._state.solutions)
        return SearchParts(
            self._writer, self._strategy, agents, self._judging, pace, self._timetable, patience, borrowed, self._loses
        )

    def _pace(self) -> Pace:
        agents, config, state = self._parts.agents, self._state.config, self._state
        client = agents.clients.get(EXTERNAL) if agents else None
        if agents is not None and isinstance(client, ExternalClient):
            return ExternalPace(state, client, self._wiring.external or ExternalAnswers(), agents.names)
        if agents is None or agents.recording is None or not config.llm.replay_verdicts:
            share, most = self._wiring.share, self._in_flight()
            return share.pace(most) if share else FreePace(most)
        recording = agents.recording
        if recording.admitted and not state.steps and not state.solutions:
            self._writer.record(*recording.admitted)
            seeding.admit(self._strategy, list(recording.admitted))
        told = sum(step_state.told for step_state in state.steps.values())
        return RecordedPace(recording, len(state.steps), told)

    def _in_flight(self) -> int:
        """Steps in flight at once; where recipes write, few, so that each knows the verdicts before
        it."""
        engine = self._state.config.engine
        pool = self._parts.executor
        if not search.needs(self._state.config.strategy).recipes_write or not isinstance(pool, WorkerPool):
            return engine.concurrency
        return min(engine.concurrency, pool.size + 1)

    async def _in_phase(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Await a phase; False if it waits for another machine, or Ctrl-C ended it or came before it."""
        if self._interrupted.is_set():
            work.close()
        else:
            self._phase = asyncio.create_task(work)
            try:
                await self._phase
                return True
            except JudgedElsewhere:
                self._writer.record(Stopped(ELSEWHERE))
                return False
            except asyncio.CancelledError:
                if not self._interrupted.is_set():
                    self._phase.cancel()
                    raise
            await self._judging.abandon()
        if self._state.stopped != INTERRUPTED:
            self._writer.record(Stopped(INTERRUPTED))
        return False

    def _stop_cleanly(self) -> None:
        self._interrupted.set()
        if self._search is not None:
            self._search.request_stop(INTERRUPTED)
        elif self._phase is not None:
            self._phase.cancel()

    def _stop_at_once(self) -> None:
        if self._phase is not None:
            self._phase.cancel()

    def _elapsed_seconds(self) -> float:
        return self._earlier_seconds + time.monotonic() - self._began
