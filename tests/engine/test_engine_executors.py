from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from engine_material import IDEAS, TASK, coa
from executor_contract import ExecutorContract

from pike.core.config import EngineConfig
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Status
from pike.engine import Executor, InstantExecutor, LocalExecutor, RecordedExecutor
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.local import judge_count

GOOD = "# pike-instant: valid 5ms final 6ms\nclass ModelNew: ..."
BAD = "# pike-instant: build-error no compiler\nclass ModelNew: ..."


class ProcessJudge:
    """A judge that is a real process which can be killed; its verdicts are the instant ones."""

    started = 0

    def __init__(self) -> None:
        type(self).started += 1
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        if callable(on_stage):
            on_stage("build")
        if "hang" in request.source:
            threading.Event().wait(0.05)
        if "kill the judge" in request.source:
            os.kill(self.process.pid, signal.SIGKILL)
        self._talk()
        return instant_verdict(request)

    def facts(self, device: str) -> DeviceFacts:
        self._talk()
        return DeviceFacts(device, "a process", memory_bytes=13 << 30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()

    def _talk(self) -> None:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write("hello\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise InfraError("the judge process ended")


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def bad() -> str:
    return BAD


class TestInstant(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Executor:
        return InstantExecutor()


class TestLocal(ExecutorContract):
    @pytest.fixture
    async def executor(self) -> AsyncIterator[Executor]:
        executor = LocalExecutor(EngineConfig(judges=2), ProcessJudge)
        yield executor
        await executor.aclose()


class TestRecorded(ExecutorContract):
    @pytest.fixture
    async def executor(self, run, tmp_path: Path) -> Executor:
        await run([IDEAS, coa("valid 5ms", "x"), coa("wrong-output", "y")], "recorded", queries=4)
        return RecordedExecutor(tmp_path / "recorded")

    @pytest.fixture
    def good(self, executor: Executor) -> str:
        return coa("valid 5ms", "x")["text"].partition("```python\n")[2].partition("\n```")[0] + "\n"

    @pytest.fixture
    def bad(self, executor: Executor) -> str:
        return coa("wrong-output", "y")["text"].partition("```python\n")[2].partition("\n```")[0] + "\n"

    async def test_an_unknown_source_is_not_guessed(self, executor: Executor) -> None:
        evaluation = await executor.evaluate(self.request("never seen"))
        assert evaluation.status is Status.INFRA_ERROR
        assert "never judged" in evaluation.reason


def request(source: str, effort: Effort = Effort.SEARCH) -> EvaluationRequest:
    return EvaluationRequest(TASK, source, effort=effort)


def test_the_instant_verdict_is_what_the_source_says() -> None:
    assert instant_verdict(request(GOOD)).candidate_ms == 5
    assert instant_verdict(request(GOOD, Effort.FINAL)).candidate_ms == 6
    refused = instant_verdict(request(BAD))
    assert (refused.status, refused.reason) == (Status.BUILD_ERROR, "no compiler")


def test_without_a_line_a_hash_decides_and_both_outcomes_occur() -> None:
    verdicts = [instant_verdict(request(f"class ModelNew: mark = {i}")) for i in range(60)]
    assert verdicts == [instant_verdict(request(f"class ModelNew: mark = {i}")) for i in range(60)]
    assert 20 < sum(verdict.valid for verdict in verdicts) < 55
    assert len({verdict.status for verdict in verdicts}) > 3


async def test_a_dead_judge_is_replaced_and_the_next_evaluation_works() -> None:
    executor = LocalExecutor(EngineConfig(judges=1), ProcessJudge)
    ProcessJudge.started = 0
    failed = await executor.evaluate(request("kill the judge"))
    assert failed.status is Status.INFRA_ERROR
    assert "2 times" in failed.reason
    assert ProcessJudge.started == 2
    assert (await executor.evaluate(request(GOOD))).valid
    assert ProcessJudge.started == 3
    await executor.aclose()


async def test_a_judge_that_dies_once_costs_nothing_but_a_retry() -> None:
    executor = LocalExecutor(EngineConfig(judges=1), ProcessJudge)
    ProcessJudge.started = 0
    await executor.facts("cpu")
    judge = executor._idle[0]._judge  # the process is killed behind the executor's back
    assert isinstance(judge, ProcessJudge)
    judge.kill()
    assert (await executor.evaluate(request(GOOD))).valid
    assert ProcessJudge.started == 2
    await executor.aclose()


async def test_no_more_judges_work_at_once_than_there_are() -> None:
    executor, waiting = LocalExecutor(EngineConfig(judges=1), ProcessJudge), list[str]()
    await asyncio.gather(*(executor.evaluate(request(GOOD + "hang"), waiting.append) for _ in range(3)))
    assert waiting.count("waiting") == 3
    assert waiting.count("build") == 3
    await executor.aclose()


async def test_closing_while_judging_kills_the_judge() -> None:
    executor = LocalExecutor(EngineConfig(judges=1), ProcessJudge)
    task = asyncio.create_task(executor.evaluate(request(GOOD + "hang")))
    await asyncio.sleep(0.02)
    await executor.aclose()
    assert (await task).status in (Status.INFRA_ERROR, Status.VALID)


@pytest.mark.parametrize(
    ("device", "judges", "at_once"),
    [("cuda:0", 0, 2), ("cuda:0", 4, 4), ("cpu", 0, 4)],
    ids=["gpu", "asked-for", "cpu"],
)
async def test_no_more_judges_work_than_a_gpu_has_memory_for(
    device: str, judges: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    busy, most, lock = 0, 0, threading.Lock()
    everybody = threading.Barrier(at_once)

    def evaluate(self: ProcessJudge, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        everybody.wait(60.0)  # so that as many as may come are there
        with lock:
            busy -= 1
        return instant_verdict(request)

    monkeypatch.setattr(ProcessJudge, "evaluate", evaluate)
    executor = LocalExecutor(EngineConfig(judges=judges), ProcessJudge)
    async with asyncio.timeout(60.0):
        await asyncio.gather(*(executor.facts(device) for _ in range(6)))  # as the runs of a campaign do at the start
        await asyncio.gather(*(executor.evaluate(request(GOOD)) for _ in range(8)))
    await executor.aclose()
    assert most == at_once


def test_as_many_judges_as_half_the_cores_but_never_more_than_steps() -> None:
    assert judge_count(EngineConfig(concurrency=1)) == 1
    assert judge_count(EngineConfig(judges=7, concurrency=1)) == 7
    cores = len(os.sched_getaffinity(0))
    assert judge_count(EngineConfig(concurrency=1000)) == max(1, cores // 2)
