"""Verdicts for a run: each distinct source is judged once.

Knows the executor, the run's earlier verdicts, and those on their way. Does not know steps or
strategies. A second measurement of a source would be noise, which a search would take for progress.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pike.core.step import Candidate
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Status
from pike.engine.executors.contract import Executor, evaluate_finally
from pike.engine.run.configuration import search_terms
from pike.engine.state.models import replayed
from pike.engine.state.run_state import RunState
from pike.engine.state.timetable import Timetable

TOO_SHORT = "the time is too short for another finalist"


class NoTimeLeft(Exception):
    """The run's limit of time leaves none for another finalist."""


class Judging:
    """The judges of a run."""

    def __init__(self, executor: Executor, state: RunState, timetable: Timetable) -> None:
        self._executor = executor
        self._state = state
        self._timetable = timetable
        self._coming: dict[str, asyncio.Task[Evaluation]] = {}
        self._profiling = ""

    async def search(self, candidate: Candidate, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on a source at search effort: new, shared with one under way, or reused."""
        source = candidate.source
        known = self._state.verdict_on(source)
        if known is not None:
            return known
        task = self._coming.get(source)
        if task is None:
            task = asyncio.create_task(self._executor.evaluate(self._search_request(candidate), on_stage))
            self._coming[source] = task
            task.add_done_callback(lambda _: self._coming.pop(source, None))
        return await asyncio.shield(task)

    async def final(self, sources: Sequence[str], on_stage: OnStage | None = None) -> list[Evaluation]:
        """New, thorough verdicts on fresh data, timed in the same sessions.

        Sources for which there is no time are refused.

        Raises:
            NoTimeLeft: the run's time is over, and another finalist is valid.
        """
        is_first = not any(evaluation.valid for evaluation in self._state.finals.values())
        count, options = self._timetable.final_plan(len(sources))
        if count == 0 and not is_first:
            raise NoTimeLeft
        requests = []
        for source in sources[: max(1, count)]:
            # A baseline is no candidate of the run.
            mine = [one.candidate for one in self._state.solutions.values() if one.candidate.source == source]
            caches, effort = self._shared_caches(mine), Effort.FINAL if mine else Effort.BESIDE
            requests.append(EvaluationRequest(self._state.task, source, options, effort, caches=caches))
        work = evaluate_finally(self._executor, requests, on_stage, lambda: self._timetable.final_plan(1)[1])
        try:
            found = await asyncio.wait_for(work, None if is_first else self._timetable.final_seconds_left)
        except TimeoutError:
            raise NoTimeLeft from None
        return [*found, *[Evaluation(Status.INFRA_ERROR, TOO_SHORT)] * (len(sources) - len(found))]

    async def abandon(self) -> None:
        """Cancel every evaluation under way."""
        tasks = tuple(self._coming.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refuse(self, reason: str) -> Evaluation:
        """The verdict on an answer that holds nothing to judge."""
        options, device = self._state.config.evaluate, self._state.device.name
        refused = Evaluation(Status.PARSE_ERROR, reason, tolerance=options.tolerance, precision=options.precision)
        return replace(refused, device=device)

    def _search_request(self, candidate: Candidate) -> EvaluationRequest:
        state, best = self._state, self._state.best
        least_speedup = (best.evaluation.speedup or 0.0) if best else 0.0
        options = search_terms(state.config, candidate.expected_seconds)
        profile = state.config.prompt.profile or self._wants_floor(candidate)
        caches = self._shared_caches([candidate])
        return EvaluationRequest(state.task, candidate.source, options, Effort.SEARCH, least_speedup, profile, caches)

    def _shared_caches(self, candidates: Iterable[Candidate]) -> str:
        """The caches of compilers that compositions of this run share, as PIKE itself wrote them all.

        A replay repeats the candidates of another folder, which prove nothing by their names.
        """
        own = replayed(self._state.config.llm) is None and any(one.recipes for one in candidates)
        return "recipes" if own else ""

    def _wants_floor(self, candidate: Candidate) -> bool:
        """Whether this composition is the one whose profile tells recipes what is left to gain."""
        state = self._state
        if not candidate.recipes or state.best is None or state.config.llm.asks_models:
            return False
        if self._profiling in self._coming or any(one.evaluation.profile for one in state.solutions.values()):
            return False
        self._profiling = candidate.source
        return True
