"""What every executor must do; a new one joins by subclassing `ExecutorContract` and giving the fixtures."""

from __future__ import annotations

import asyncio

from engine_material import TASK

from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status
from pike.engine import Executor


class ExecutorContract:
    """Fixtures that the module or the subclass gives: `executor` (ready), `good` and `bad` (sources that it finds valid and invalid)."""

    def request(self, source: str) -> EvaluationRequest:
        return EvaluationRequest(TASK, source, EvaluateOptions(device="cpu"))

    async def test_a_good_candidate_is_timed(self, executor: Executor, good: str) -> None:
        evaluation = await executor.evaluate(self.request(good))
        assert evaluation.status is Status.VALID
        assert evaluation.timing is not None
        assert evaluation.timing.candidate_ms > 0

    async def test_a_bad_candidate_is_a_verdict_with_a_reason(self, executor: Executor, bad: str) -> None:
        evaluation = await executor.evaluate(self.request(bad))
        assert evaluation.status not in (Status.VALID, Status.INFRA_ERROR)
        assert evaluation.reason

    async def test_many_at_once_get_their_own_verdicts(self, executor: Executor, good: str, bad: str) -> None:
        sources = [good, bad] * 3
        verdicts = await asyncio.gather(*(executor.evaluate(self.request(source)) for source in sources))
        assert [verdict.valid for verdict in verdicts] == [True, False] * 3

    async def test_it_works_on_after_a_cancelled_evaluation(self, executor: Executor, good: str) -> None:
        task = asyncio.create_task(executor.evaluate(self.request(good)))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await executor.evaluate(self.request(good))).valid

    async def test_stages_are_told_in_the_loop(self, executor: Executor, good: str) -> None:
        loop, told = asyncio.get_running_loop(), list[str]()

        def on_stage(stage: str) -> None:
            assert asyncio.get_running_loop() is loop
            told.append(stage)

        await executor.evaluate(self.request(good), on_stage)
        await asyncio.sleep(0)
        assert all(told)

    async def test_facts_name_the_device(self, executor: Executor) -> None:
        assert (await executor.facts("cpu")).name

    async def test_closing_twice_is_fine(self, executor: Executor, good: str) -> None:
        await executor.evaluate(self.request(good))
        await executor.aclose()
        await executor.aclose()
