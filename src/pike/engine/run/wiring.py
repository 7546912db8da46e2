"""The parts of a run: which can be exchanged, and how they are opened and checked.

Knows that all parts are checked before anything is written or spent. Does not know how a run uses
them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pike import llm
from pike.core.agent import Agent
from pike.core.device import DeviceFacts
from pike.core.settings.config import RunConfig
from pike.core.step import Role
from pike.core.task import Task
from pike.engine.executors.choice import executor_of, explorer_of
from pike.engine.executors.contract import Executor
from pike.engine.executors.exploring import Explorer
from pike.engine.executors.recorded import RecordedExecutor
from pike.engine.output import originals
from pike.engine.output.originals import OriginalModel
from pike.engine.run.agents import Agents, Connect, assemble
from pike.engine.run.external_answers import ExternalAnswers
from pike.engine.run.seeding import SharedSeeds
from pike.engine.state.pace import BudgetShare
from pike.engine.state.progress import Observer
from pike.judge.reference.task_files import TaskFiles


@dataclass(frozen=True, slots=True)
class Wiring:
    """The exchangeable parts of a run; the defaults are the real ones.

    Attributes:
        executor: the judges; None for judges on this machine, or for the recorded verdicts in a
            replay.
        load: loads the original model; None if neither recipes nor a drop-in need it.
        agents: the agent of each role, in place of models and recipes.
        handle_signals: take Ctrl-C as a wish to stop cleanly.
        share: what the run takes from its campaign, None where it stands alone.
        external: what this process brings to a run with external answers.
        explorer: finds out which recipes apply; None for one where the judges are.
        seeds: verdicts on recipe seeds that runs of a campaign share; None where the run stands alone.
    """

    executor: Executor | None = None
    connect: Connect = llm.connect
    load: Callable[[Task], OriginalModel] | None = originals.load
    agents: Mapping[Role, Agent] | None = None
    observer: Observer | None = None
    handle_signals: bool = True
    share: BudgetShare | None = None
    external: ExternalAnswers | None = None
    explorer: Explorer | None = None
    seeds: SharedSeeds | None = None


@dataclass(frozen=True, slots=True)
class OpenParts:
    """The parts that were opened and checked; `began` is the monotonic time before that."""

    agents: Agents | None
    executor: Executor
    original: OriginalModel | None
    device: DeviceFacts
    explorer: Explorer
    began: float


@asynccontextmanager
async def opened(task: Task, config: RunConfig, wiring: Wiring) -> AsyncIterator[OpenParts]:
    """Open and check all parts, cheapest first; close them at the end."""
    began = time.monotonic()
    TaskFiles().require_unchanged(task)  # before the task's code runs in this process
    agents = assemble(config, wiring.connect) if wiring.agents is None else None
    try:
        if agents is not None:
            await agents.check()
        executor = wiring.executor or _executor(agents, config)
        explorer = wiring.explorer or explorer_of(executor, config.engine)
        try:
            # Both import torch, each in its own process.
            loading = asyncio.to_thread(wiring.load or (lambda _: None), task)
            original, device = await asyncio.gather(loading, executor.facts(config.evaluate.device))
            yield OpenParts(agents, executor, original, device, explorer, began)
        finally:
            explorer.close()
            await executor.aclose()
    finally:
        if agents is not None:
            await agents.aclose()


def _executor(agents: Agents | None, config: RunConfig) -> Executor:
    if agents is not None and agents.recording is not None and config.llm.replay_verdicts:
        return RecordedExecutor(agents.recording.folder)
    return executor_of(config.engine)
