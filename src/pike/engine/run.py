"""A whole run: wire the rooms together, search, measure the finalists again, write the results.

Knows the phases of a run and which parts each needs. Does not know how a step lives (`loop`), how money is kept
(`ledger`) or what `api` and `cli` make of the result. Nothing is written or spent before names, keys, task and
device have been checked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pike
from pike import llm, search, store
from pike.core.agent import Agent
from pike.core.config import RunConfig
from pike.core.device import DeviceFacts
from pike.core.errors import StoreError
from pike.core.events import Finished, QuerySent, Resumed, RunStarted, Stopped
from pike.core.step import Role, Strategy
from pike.core.task import Task
from pike.engine import originals, outputs, resume, seeding
from pike.engine.boundary import PATIENCE
from pike.engine.crew import Connect, Crew, assemble, recipe_agent
from pike.engine.executors import Executor, LocalExecutor, RecordedExecutor
from pike.engine.executors.local import judge_count
from pike.engine.finalists import measure_again
from pike.engine.hand import Hand, HandPace
from pike.engine.interrupt import interrupts
from pike.engine.judging import Judging
from pike.engine.ledger import Ledger
from pike.engine.loop import Parts, Search
from pike.engine.memory import FOR_GOOD, Memory
from pike.engine.models import make_strategy
from pike.engine.originals import Original
from pike.engine.progress import Observer
from pike.engine.replay import FreePace, Pace, RecordedPace
from pike.engine.result import RunResult, result_of
from pike.engine.scribe import Scribe
from pike.engine.settle import settle
from pike.engine.share import Share
from pike.llm.hand import NAME as BY_HAND
from pike.llm.hand import HandClient

INTERRUPTED = "interrupted"
PAUSED = "paused"
"""A campaign lets other runs go first; nothing of this one is in flight."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of a run that can be exchanged; the defaults are the real ones.

    Attributes:
        executor: who judges; None for judges on this machine, or the recorded verdicts in a replay.
        connect: opens clients by name.
        load: loads the original model; None where nothing needs it (no recipes, no drop-in).
        agents: who answers each role instead of models and recipes.
        observer: told whatever changes.
        handle_signals: take Ctrl-C as a wish to stop cleanly.
        share: what the run takes from the campaign that it is part of, None where it stands alone.
        hand: for a run that is answered by hand, what this process brings to it.
    """

    executor: Executor | None = None
    connect: Connect = llm.connect
    load: Callable[[Task], Original] | None = originals.load
    agents: Mapping[Role, Agent] | None = None
    observer: Observer | None = None
    handle_signals: bool = True
    share: Share | None = None
    hand: Hand | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What has been opened and checked."""

    crew: Crew | None
    executor: Executor
    original: Original | None
    device: DeviceFacts


async def start(task: Task, config: RunConfig, folder: Path, wiring: Wiring | None = None) -> RunResult:
    """Begin a run in a new folder and carry it out.

    Returns:
        The result; `finished` is False where it was stopped in a way that `resume_run` can continue.

    Raises:
        UserError: something in the task or the configuration cannot be used, or the folder holds a run already.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be written; what was written is safe.
    """
    wiring = wiring or Wiring()
    config = settle(config)
    strategy = make_strategy(config)
    async with _opened(task, config, wiring) as parts:
        if parts.crew and parts.crew.recording and config.llm.replay_verdicts:
            parts.crew.recording.require_same(task.id, config)
        with store.Journal.create(folder) as journal:
            scribe = Scribe(journal, Memory(), wiring.observer)
            scribe.record(RunStarted(task, config, parts.device, pike.__version__))
            return await _Run(scribe, strategy, parts, wiring, folder).conduct()


async def resume_run(folder: Path, wiring: Wiring | None = None) -> RunResult:
    """Continue a run where its journal ends; a finished one is only read.

    Raises:
        UserError: there is no run in `folder`, another process holds it, or this version decides otherwise.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be read or written.
    """
    wiring = wiring or Wiring()
    with store.Journal.open(folder) as journal:
        # Prompts are written to be looked at; the run itself renders them again where it needs them.
        entries = journal.entries(without_texts=(QuerySent,))
        first = tuple(islice(entries, 1))
        begun = outputs.beginning(first, folder)
        if isinstance(journal.last().event, Finished):
            return await _read_finished(outputs.remember(tuple(chain(first, entries)), folder), wiring, folder)
        strategy = make_strategy(begun.config)
        scribe = Scribe(journal, Memory(), wiring.observer)
        resume.rebuild(scribe.memory, strategy, chain(first, entries), folder)
        async with _opened(begun.task, begun.config, wiring) as parts:
            scribe.record(Resumed(pike.__version__))
            run = _Run(scribe, strategy, parts, wiring, folder)
            run.compare_device()
            return await run.conduct()


async def read_result(folder: Path) -> RunResult:
    """What a run has come to by now, finished or not, without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    memory = outputs.remember(tuple(store.read(folder)), folder)
    return result_of(memory, folder, memory.seconds)


async def _read_finished(memory: Memory, wiring: Wiring, folder: Path) -> RunResult:
    """The result of a run that was complete; files that its last process did not get to write are written now."""
    result = result_of(memory, folder, memory.seconds, ("The run was finished already; nothing was done",))
    if not outputs.written(folder, result):
        original = await asyncio.to_thread(wiring.load, memory.task) if wiring.load else None
        outputs.write(folder, memory.task, result, original)
    return result


@asynccontextmanager
async def _opened(task: Task, config: RunConfig, wiring: Wiring) -> AsyncIterator[_Parts]:
    """Open and check everything that can refuse, cheapest first; close it at the end."""
    crew = assemble(config, wiring.connect) if wiring.agents is None else None
    try:
        if crew is not None:
            await crew.check()
        original = await asyncio.to_thread(wiring.load, task) if wiring.load else None
        executor = wiring.executor or _executor(crew, config)
        try:
            yield _Parts(crew, executor, original, await executor.facts(config.evaluate.device))
        finally:
            await executor.aclose()
    finally:
        if crew is not None:
            await crew.aclose()


def _executor(crew: Crew | None, config: RunConfig) -> Executor:
    if crew is not None and crew.recording is not None and config.llm.replay_verdicts:
        return RecordedExecutor(crew.recording.folder)
    return LocalExecutor(config.engine)


class _Run:
    """The phases of one process's part of a run."""

    def __init__(self, scribe: Scribe, strategy: Strategy, parts: _Parts, wiring: Wiring, folder: Path) -> None:
        self._scribe = scribe
        self._memory = scribe.memory
        self._strategy = strategy
        self._parts = parts
        self._wiring = wiring
        self._folder = folder
        self._began = time.monotonic()
        self._earlier_seconds = scribe.memory.seconds
        self._judging = Judging(parts.executor, scribe.memory)
        self._search: Search | None = None
        self._phase: asyncio.Task[Any] | None = None
        self._interrupted = threading.Event()
        self._notes: list[str] = []

    def compare_device(self) -> None:
        """Say so if the run goes on on another device than it began on: times then do not compare."""
        then, now = self._memory.device, self._parts.device
        if (then.name, then.threads) != (now.name, now.threads):
            self._notes.append(
                f"The run began on {then.name} ({then.threads} threads) and was continued on {now.name} "
                f"({now.threads} threads): its times do not compare"
            )

    async def conduct(self) -> RunResult:
        """Carry the run out, from wherever its journal ends."""
        try:
            try:
                with self._stops():
                    await self._phases()
            finally:
                await self._scribe.settle()
            result = result_of(self._memory, self._folder, self._elapsed_seconds(), tuple(self._notes))
            outputs.write(self._folder, self._memory.task, result, self._parts.original)
        except StoreError as error:
            raise StoreError(f"{error}. What was written is safe; continue with: pike resume {self._folder}") from error
        self._scribe.board.enter("done")
        return result

    def _stops(self) -> AbstractContextManager[None]:
        """While it lasts, whoever may stop the run can."""
        if self._wiring.share is not None:
            return self._wiring.share.stops(self._stop_cleanly, self._stop_at_once)
        return interrupts(self._stop_cleanly, self._stop_at_once) if self._wiring.handle_signals else nullcontext()

    async def _phases(self) -> None:
        if self._wiring.share is not None:
            self._wiring.share.opened(self._memory)
        agents, recipes = self._agents()
        if recipes is not None and self._to_be_seeded():
            self._scribe.board.enter("seeding")
            if not await self._in_phase(self._seed(recipes)):
                return
        self._scribe.board.enter("searching")
        self._search = Search(self._search_parts(agents))
        completed = await self._in_phase(self._search.run())
        reason = self._search.outcome
        self._search = None
        if completed and not reason:
            self._scribe.record(Stopped(PAUSED))
        if not completed or reason not in FOR_GOOD:
            return
        self._scribe.board.enter("measuring")
        if await self._in_phase(measure_again(self._scribe, self._judging)) and not self._memory.finished:
            self._scribe.record(Stopped("infra"))
            self._notes.append("The judges failed while the finalists were measured again")

    def _agents(self) -> tuple[Mapping[Role, Agent], Agent | None]:
        """Who answers each role, and the recipe agent where one is used."""
        crew = self._parts.crew
        if crew is None:
            return self._wiring.agents or {}, None
        original = self._parts.original
        config = self._memory.config
        recipes = recipe_agent(original, self._memory.device, config) if original and crew.uses_recipes else None
        purse = self._wiring.share.purse if self._wiring.share else None
        ledger = Ledger(config.budget, self._memory.accounts, self._scribe.keep, purse)
        return crew.agents(self._memory, ledger, recipes), recipes

    def _to_be_seeded(self) -> bool:
        memory = self._memory
        return memory.config.llm.seed_recipes and not memory.solutions and not memory.steps and not memory.closing

    async def _seed(self, recipes: Agent) -> None:
        await seeding.admit_recipes(self._scribe, self._judging, self._strategy, recipes)

    def _search_parts(self, agents: Mapping[Role, Agent]) -> Parts:
        pace = self._pace()
        patience = 0 if pace.limit is None else PATIENCE
        return Parts(self._scribe, self._strategy, agents, self._judging, pace, self._elapsed_seconds, patience)

    def _pace(self) -> Pace:
        crew, config, memory = self._parts.crew, self._memory.config, self._memory
        client = crew.clients.get(BY_HAND) if crew else None
        if crew is not None and isinstance(client, HandClient):
            return HandPace(memory, client, self._wiring.hand or Hand(), crew.names)
        if crew is None or crew.recording is None or not config.llm.replay_verdicts:
            free = FreePace(self._in_flight())
            return self._wiring.share.pace(free) if self._wiring.share else free
        recording = crew.recording
        if recording.admitted and not memory.steps and not memory.solutions:
            self._scribe.record(*recording.admitted)
            seeding.admit(self._strategy, list(recording.admitted))
        told = sum(state.told for state in memory.steps.values())
        return RecordedPace(recording, len(memory.steps), told)

    def _in_flight(self) -> int:
        """Steps in flight at once: where recipes write, enough to keep all judges busy, so that each knows the verdicts
        before it."""
        engine = self._memory.config.engine
        if not search.needs(self._memory.config.strategy).recipes_write or self._wiring.executor is not None:
            return engine.concurrency
        return min(engine.concurrency, judge_count(engine, self._parts.device) + 1)

    async def _in_phase(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Await a phase; False if Ctrl-C ended it or came before it."""
        if self._interrupted.is_set():
            work.close()
        else:
            self._phase = asyncio.create_task(work)
            try:
                await self._phase
                return True
            except asyncio.CancelledError:
                if not self._interrupted.is_set():
                    self._phase.cancel()
                    raise
            await self._judging.abandon()
        if self._memory.stopped != INTERRUPTED:
            self._scribe.record(Stopped(INTERRUPTED))
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
