"""Verdicts for a run: each distinct source is judged once.

Knows the executor, the run's earlier verdicts and which are on their way. Does not know steps or strategies.
Rule: a source that this run judged before gets the same verdict without being run again, because a second
measurement of the same file is only noise, which a search would take for progress. Verdicts that say nothing about
the source (`infra-error`, `untrusted-timing`) are not reused.
"""

from __future__ import annotations

import asyncio

from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Status
from pike.engine.executors import Executor, OnStage
from pike.engine.memory import Memory
from pike.engine.settle import while_searching


class Judging:
    """The judges as a run sees them.

    Args:
        executor: who judges.
        memory: the run's state, for its task, its terms and its earlier verdicts.
    """

    def __init__(self, executor: Executor, memory: Memory) -> None:
        self._executor = executor
        self._memory = memory
        self._coming: dict[str, asyncio.Task[Evaluation]] = {}

    async def search(self, source: str, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on a source at search effort, judged now, shared or reused."""
        known = self._memory.verdict_on(source)
        if known is not None:
            return known
        task = self._coming.get(source)
        if task is None:
            task = asyncio.create_task(self._executor.evaluate(self._request(source, Effort.SEARCH), on_stage))
            self._coming[source] = task
            task.add_done_callback(lambda _: self._coming.pop(source, None))
        return await asyncio.shield(task)

    async def final(self, source: str, on_stage: OnStage | None = None) -> Evaluation:
        """A new, thorough verdict on fresh data."""
        return await self._executor.evaluate(self._request(source, Effort.FINAL), on_stage)

    async def abandon(self) -> None:
        """Stop what is being judged."""
        tasks = tuple(self._coming.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refuse(self, reason: str) -> Evaluation:
        """The verdict on an answer that holds nothing to judge."""
        options = self._memory.config.evaluate
        return Evaluation(
            Status.PARSE_ERROR,
            reason,
            tolerance=options.tolerance,
            precision=options.precision,
            device=self._memory.device.name,
        )

    def _request(self, source: str, effort: Effort) -> EvaluationRequest:
        best = self._memory.best
        beat = (best.evaluation.speedup or 0.0) if best and effort is Effort.SEARCH else 0.0
        config = self._memory.config
        profile = config.prompt.profile and effort is Effort.SEARCH
        options = config.evaluate if effort is Effort.FINAL else while_searching(config)
        return EvaluationRequest(self._memory.task, source, options, effort, beat, profile)
