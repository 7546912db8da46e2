"""A search over recipes as a suite carries it out: short, and what won before comes first.

Knows its limits and how histories guide it. Does not know the recipes (`recipes`).
"""

import asyncio
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pike.core.agent import Agent, Context, Proposal
from pike.core.device import DeviceFacts
from pike.core.settings.config import RunConfig
from pike.core.step import Role
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions
from pike.engine.executors.exploring import Explorer, ProcessExplorer
from pike.engine.output.result import RunResult
from pike.engine.schedule.contenders.histories import Histories, Names
from pike.store.results import append_line

if TYPE_CHECKING:  # the recipes import PyTorch's compilers, which most commands do not need
    from pike.recipes.search.explored import Explored

SPARE_MINUTES = 2.0
"""A search takes so much longer than its own limit of time, for exploring and its finalists."""
MOST_FINALISTS = 2
"""Judges side by side disturb the times of a search, so the fastest there may be the second."""


@dataclass(frozen=True, slots=True)
class RecipeLimits:
    """How far each search over recipes of a suite goes.

    Attributes:
        candidates: the most that are judged before the winner is measured again.
        minutes: from the first candidate of its own to the last; what won before takes none of it.
        known: histories of earlier searches: what won is tried first, and nothing twice.
        explorer: finds out which recipes apply.
    """

    candidates: int = 3
    minutes: float = 3.0
    known: Histories = field(default_factory=Histories)
    explorer: Explorer = field(default_factory=ProcessExplorer)

    def configure(self, config: RunConfig) -> RunConfig:
        """The configuration of one search: one candidate at a time, and few finalists."""
        hours, finalists = (self.minutes + SPARE_MINUTES) / 60.0, min(MOST_FINALISTS, config.engine.finalists)
        engine = replace(config.engine, concurrency=1, finalists=finalists, max_hours=hours)
        return replace(config, engine=engine)

    def agents(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> dict[Role, Agent]:
        """The agent of one search, in every role."""
        search = _Guided(self, task, lambda: self.explorer.explore(task, device, options), options)
        return dict.fromkeys(Role, search)


class _Guided:
    """A recipe agent that proposes what won before first, and stops at its limits."""

    def __init__(
        self, limits: RecipeLimits, task: Task, explore: Callable[[], "Explored"], options: EvaluateOptions
    ) -> None:
        from pike.recipes import RecipeAgent

        self._limits = limits
        self._task = task
        self._explore = explore
        self._precision = options.precision
        self._agent = RecipeAgent(self._untried)
        self._first: Proposal | None = None
        self._given: set[str] = set()
        self._deadline = math.inf

    async def act(self, context: Context) -> Proposal:
        """Ideas while the strategy brainstorms; then a composition, or the end of the search."""
        if context.step.role is Role.BRAINSTORM:
            return await self._agent.act(context)
        await asyncio.to_thread(self._agent.declined)  # explores, after which it is known what comes first
        tried = {solution.candidate.id for solution in context.known}
        if len(tried | self._given) >= self._limits.candidates or time.monotonic() > self._deadline:
            return Proposal(author="recipes", failure="as many as were asked for were tried", exhausted=True)
        self._given.add(f"c{context.step.id}")
        known = {solution.candidate.recipes for solution in context.known}
        first, self._first = self._first, None
        if first is not None and first.recipes not in known:
            return first
        self._deadline = min(self._deadline, time.monotonic() + 60.0 * self._limits.minutes)
        return await self._agent.act(context)

    def _untried(self) -> "Explored":
        """What is known about the problem, without the compositions that earlier searches tried."""
        from pike.recipes.search.proposals import proposal

        found = self._explore()
        known = self._limits.known
        best: Names = found.space.completed(known.best_before(self._task.id, self._precision))
        if found.space.applies(best):
            self._first = proposal(self._task, best, found.adapted)
        tried = known.tried(self._task.id, self._precision)
        found.space.ranked = tuple(names for names in found.space.ranked if names not in tried)
        return found


def keep_history(path: Path, precision: str, found: RunResult, source: str) -> None:
    """Append what a search over recipes tried and found, as `Histories` reads it.

    Raises:
        StoreError: the disk refuses.
    """
    flat = found.flat()
    kept = {name: flat[name] for name in ("trail", "declined", "counts", "notes", "stopped")}
    kept |= {"seconds": round(found.seconds, 1), "best": source}
    append_line(path, json.dumps({"task": found.task, "precision": precision, **kept}))
