from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest
from engine_material import IDEAS, TASK, coa
from executor_contract import ExecutorContract

from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import (
    DEVICE_MEMORY,
    Effort,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    OnStage,
    Status,
)
from pike.engine import Executor, LocalExecutor
from pike.engine.executors.contract import evaluate_finally
from pike.engine.executors.instant import InstantExecutor, instant_verdict
from pike.engine.executors.local import judge_count
from pike.engine.executors.pool import MOST_OVERTAKEN, WorkerPool
from pike.engine.executors.recorded import RecordedExecutor

GOOD = "# pike-instant: valid 5ms final 6ms\nclass ModelNew: ..."
BAD = "# pike-instant: build-error no compiler\nclass ModelNew: ..."


class ProcessJudge:
    """A judge that is a real process which can be killed; its verdicts are the instant ones."""

    started: ClassVar[list[ProcessJudge]] = []

    def __init__(self) -> None:
        self.started.append(self)
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

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: object = None) -> list[Evaluation]:
        """A group is judged one after the other."""
        return [self.evaluate(request, on_stage) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        self._talk()
        return DeviceFacts(device, "a process", memory_bytes=13 << 30)

    def release(self) -> None:
        self._talk()

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


@pytest.mark.parametrize(("effort", "seconds"), [(Effort.SEARCH, [3.0]), (Effort.FINAL, [3.0, 1.0])])
async def test_only_what_is_reported_is_tried_again_on_a_busy_machine_and_in_the_time_that_is_left(
    effort: Effort, seconds: list[float]
) -> None:
    asked = list[float]()

    class Busy(InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            asked.append(request.options.max_timing_seconds)
            return Evaluation(Status.UNTRUSTED_TIMING, "busy")

    requests = [EvaluationRequest(TASK, GOOD, EvaluateOptions(max_timing_seconds=3.0), effort)]
    await evaluate_finally(Busy(), requests, None, lambda: EvaluateOptions(max_timing_seconds=1.0))
    assert asked == seconds


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
    ProcessJudge.started.clear()
    failed = await executor.evaluate(request("kill the judge"))
    assert failed.status is Status.INFRA_ERROR
    assert "2 times" in failed.reason
    assert len(ProcessJudge.started) == 2
    assert (await executor.evaluate(request(GOOD))).valid
    assert len(ProcessJudge.started) == 3
    await executor.aclose()


async def test_a_judge_that_dies_once_costs_nothing_but_a_retry() -> None:
    executor = LocalExecutor(EngineConfig(judges=1), ProcessJudge)
    ProcessJudge.started.clear()
    await executor.facts("cpu")
    ProcessJudge.started[0].kill()  # behind the executor's back
    assert (await executor.evaluate(request(GOOD))).valid
    assert len(ProcessJudge.started) == 2
    await executor.aclose()


async def test_judges_that_were_lost_together_cost_a_candidate_one_attempt() -> None:
    executor = LocalExecutor(EngineConfig(judges=2), ProcessJudge)
    ProcessJudge.started.clear()
    await asyncio.gather(*(executor.evaluate(request(f"{GOOD}hang {number}")) for number in range(2)))
    for judge in ProcessJudge.started:
        judge.kill()  # as the loss of their machine would
    assert (await executor.evaluate(request(GOOD))).valid
    assert len(ProcessJudge.started) == 3
    await executor.aclose()


async def test_an_idle_judge_ends_and_another_one_begins_when_it_is_needed() -> None:
    pool = WorkerPool([ProcessJudge], 2, idle_seconds=0.2)
    ProcessJudge.started.clear()
    assert (await pool.evaluate(request(GOOD))).valid
    async with asyncio.timeout(30.0):
        while ProcessJudge.started[0].process.poll() is None:
            await asyncio.sleep(0.02)
    assert (await pool.evaluate(request(GOOD))).valid
    assert len(ProcessJudge.started) == 2
    await pool.aclose()


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


@dataclass
class Meeting:
    """What the workers of one pool have in common."""

    at_once: int = 1
    busy: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    events: list[str] = field(default_factory=list)
    memory_refusals: int = 0
    go: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.everybody = threading.Barrier(self.at_once)


class MeetingWorker:
    """A worker in this process: it waits until as many as may come are there, and runs out of memory as told."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        meeting = self.meeting
        with meeting.lock:
            meeting.busy += 1
            meeting.most = max(meeting.most, meeting.busy)
            meeting.events.append(f"begin {request.task.id} beside {meeting.busy - 1}")
        if "meet" in request.source:
            meeting.everybody.wait(60.0)
        if "wait" in request.source:
            meeting.go.wait(60.0)
        with meeting.lock:
            meeting.busy -= 1
            meeting.events.append(f"end {request.task.id}")
            if "large" in request.source and meeting.memory_refusals:
                meeting.memory_refusals -= 1
                return Evaluation(Status.RESOURCE_LIMIT, "no device memory", labels=(DEVICE_MEMORY,))
        return instant_verdict(request)

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: object = None) -> list[Evaluation]:
        """A group is judged one after the other."""
        return [self.evaluate(request, on_stage) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts(device, "a fake", memory_bytes=13 << 30)

    def release(self) -> None:
        self.meeting.events.append("release")

    def kill(self) -> None:
        self.meeting.events.append("kill")

    def close(self) -> None:
        pass


def task_called(name: str) -> Task:
    return replace(TASK, id=name)


@pytest.mark.parametrize(
    ("device", "judges", "at_once"),
    [("cuda:0", 0, 2), ("cuda:0", 4, 4), ("cpu", 0, 4)],
    ids=["gpu", "asked-for", "cpu"],
)
async def test_no_more_judges_work_than_a_gpu_has_memory_for(
    device: str, judges: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    meeting, started = Meeting(at_once), list[MeetingWorker]()

    def start() -> MeetingWorker:
        started.append(MeetingWorker(meeting))
        return started[-1]

    executor = LocalExecutor(EngineConfig(judges=judges), start)
    async with asyncio.timeout(60.0):
        await asyncio.gather(*(executor.facts(device) for _ in range(6)))  # as the runs of a campaign do at the start
        requests = [EvaluationRequest(task_called(f"t{n}"), f"{GOOD} # meet") for n in range(8)]
        await asyncio.gather(*(executor.evaluate(one) for one in requests))
    await executor.aclose()
    assert meeting.most == at_once
    assert len(started) <= max(at_once, 4), "no process is started for a worker that may not work"


def asked(name: str, source: str = "") -> EvaluationRequest:
    return EvaluationRequest(task_called(name), f"{GOOD} # {source}")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0.001)


async def test_what_finds_no_device_memory_is_tried_again_once_alone_after_all_memory_is_released() -> None:
    meeting = Meeting(memory_refusals=1)
    pool = WorkerPool([lambda: MeetingWorker(meeting)], 2)
    small = asyncio.create_task(pool.evaluate(asked("small", "wait")))
    await until(lambda: meeting.busy == 1)
    large = asyncio.create_task(pool.evaluate(asked("large", "large")))
    await until(lambda: "end large" in meeting.events)
    late = asyncio.create_task(pool.evaluate(asked("late")))
    await asyncio.sleep(0.05)
    assert meeting.events == ["begin small beside 0", "begin large beside 1", "end large"], "it waits, and so do others"
    meeting.go.set()
    assert [(await one).valid for one in (small, large, late)] == [True] * 3
    assert meeting.events[3:-2] == ["end small", "release", "release", "begin large beside 0", "end large"]
    assert meeting.events[-2:] == ["begin late beside 0", "end late"]
    await pool.aclose()


async def test_a_second_refusal_for_memory_is_the_verdict() -> None:
    meeting = Meeting(memory_refusals=5)
    pool = WorkerPool([lambda: MeetingWorker(meeting)], 2)
    verdict = await pool.evaluate(asked("large", "large"))
    assert (verdict.status, meeting.memory_refusals) == (Status.RESOURCE_LIMIT, 3)
    assert (await pool.evaluate(asked("other"))).valid, "the pool goes on"
    await pool.aclose()


async def test_a_cancelled_wait_to_be_alone_keeps_no_other_out() -> None:
    meeting = Meeting(memory_refusals=1)
    pool = WorkerPool([lambda: MeetingWorker(meeting)], 2)
    small = asyncio.create_task(pool.evaluate(asked("small", "wait")))
    await until(lambda: meeting.busy == 1)
    large = asyncio.create_task(pool.evaluate(asked("large", "large")))
    await until(lambda: "end large" in meeting.events)
    await asyncio.sleep(0.01)
    large.cancel()
    async with asyncio.timeout(60.0):
        assert (await pool.evaluate(asked("late"))).valid
    meeting.go.set()
    await small
    await pool.aclose()


class LookingWorker(MeetingWorker):
    """A worker that looks at originals; it fails as often as it is told."""

    def __init__(self, meeting: Meeting, failures: list[Exception]) -> None:
        super().__init__(meeting)
        self.failures, self.alone = failures, list[bool]()

    def preflight(self, request: EvaluationRequest) -> float | None:
        self.meeting.events.append(f"look at {request.task.id}{' alone' if request.alone else ''}")
        if self.failures:
            raise self.failures.pop()
        return 1.5


async def test_an_original_is_looked_at_once_by_the_worker_that_then_judges() -> None:
    started, meeting = list[LookingWorker](), Meeting()

    def start() -> LookingWorker:
        started.append(LookingWorker(meeting, []))
        return started[-1]

    pool = WorkerPool([start], 2)
    await pool.facts("cpu")
    longer = replace(asked("a"), options=EvaluateOptions(timeout_seconds=7.0))
    assert [await pool.preflight(asked("a")), await pool.preflight(longer)] == [1.5, 1.5]
    await pool.evaluate(longer)
    assert len(started) == 1 and meeting.events == ["look at a", "begin a beside 0", "end a"]
    await pool.preflight(replace(longer, options=EvaluateOptions(lint=False)))
    assert meeting.events[-1] == "look at a", "other terms"
    await pool.aclose()


async def test_idle_judges_that_prepared_nothing_prepare_a_task_meanwhile() -> None:
    meeting, failures = Meeting(), list[Exception]()
    pool = LocalExecutor(EngineConfig(judges=3), lambda: LookingWorker(meeting, failures))
    await pool.preflight(asked("other"))
    failures.append(InfraError("it died"))
    pool.prepare(asked("a"))
    await until(lambda: len(meeting.events) == 4 and pool._preparing.done())
    assert sorted(meeting.events) == ["kill", "look at a", "look at a", "look at other"]
    pool.prepare(asked("a"))
    await until(lambda: pool._preparing.done())
    assert meeting.events[4:] == ["look at a"], "the one in the place of the one that died"
    pool.prepare(asked("b"))
    await pool.evaluate(asked("other"))
    assert meeting.events[5:] == ["begin other beside 0", "end other"]
    await pool.aclose()


async def test_judges_that_prepare_do_not_keep_the_end_waiting() -> None:
    started, begun, go = list[LookingWorker](), threading.Event(), threading.Event()

    class Slow(LookingWorker):
        def preflight(self, request: EvaluationRequest) -> float | None:
            begun.set()
            go.wait(60.0)
            raise InfraError("killed")

        def kill(self) -> None:
            go.set()

    def start() -> LookingWorker:
        started.append(Slow(Meeting(), []))
        return started[-1]

    pool = LocalExecutor(EngineConfig(judges=2), start)
    pool.prepare(asked("a"))
    await asyncio.to_thread(begun.wait, 60.0)
    async with asyncio.timeout(30.0):
        await pool.aclose()
    assert go.is_set() and len(started) <= 2


async def test_an_original_that_found_no_memory_is_looked_at_again_alone() -> None:
    meeting, failures = Meeting(), list[Exception]([InfraError("no memory")])
    pool = WorkerPool([lambda: LookingWorker(meeting, failures)], 2)
    assert await pool.preflight(asked("a")) == 1.5
    assert meeting.events == ["look at a", "kill", "look at a alone"]
    failures += [InfraError("it died again"), InfraError("it died")]
    with pytest.raises(InfraError, match="it died again"):
        await pool.preflight(asked("b"))
    failures.append(UserError("does not run"))
    with pytest.raises(UserError, match="does not run"):
        await pool.preflight(asked("c"))
    await pool.aclose()


@dataclass
class Listing:
    """Makes workers that keep the tasks they were given, in order."""

    tasks: list[list[str]] = field(default_factory=list)

    def __call__(self) -> MeetingWorker:
        own: list[str] = []
        self.tasks.append(own)

        class ListingWorker(MeetingWorker):
            def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
                own.append(request.task.id)
                return super().evaluate(request, on_stage)

        return ListingWorker(Meeting())


async def test_a_task_goes_to_the_worker_that_prepared_it() -> None:
    started = Listing()
    pool = WorkerPool([started], 2)
    for name in ("a", "b", "a", "a", "b"):
        await pool.evaluate(asked(name))
    await pool.aclose()
    assert started.tasks == [["a", "a", "a"], ["b", "b"]]


async def test_a_worker_goes_on_with_its_task_while_others_wait() -> None:
    started = Listing()
    pool = WorkerPool([started], 2)
    await asyncio.gather(*(pool.evaluate(asked(name)) for name in "abbbabaa"))
    await pool.aclose()
    assert sorted(started.tasks) == [["a"] * 4, ["b"] * 4]


async def test_one_task_that_waited_long_does_not_end_the_preference_for_all() -> None:
    started = Listing()
    pool = WorkerPool([started], 1)
    await asyncio.gather(*(pool.evaluate(asked(name)) for name in "abcd" * 10))
    await pool.aclose()
    (tasks,) = started.tasks
    assert sorted(tasks) == sorted("abcd" * 10)
    assert sum(one != other for one, other in itertools.pairwise(tasks)) <= 40 / (MOST_OVERTAKEN + 1) + 2


async def test_a_task_that_cannot_be_used_is_not_preferred() -> None:
    meeting, failures = Meeting(), list[Exception]([UserError("does not run")])
    pool = WorkerPool([lambda: LookingWorker(meeting, failures)], 1)
    first = asyncio.create_task(pool.preflight(asked("broken")))
    await asyncio.gather(*(pool.evaluate(asked(name)) for name in ("other", "broken")))
    with pytest.raises(UserError, match="does not run"):
        await first
    assert [event for event in meeting.events if event.startswith("end")] == ["end other", "end broken"]
    await pool.aclose()


async def test_no_task_waits_for_ever_behind_one_that_is_prepared() -> None:
    started = Listing()
    pool = WorkerPool([started], 1)
    waiting = {n: asyncio.create_task(pool.evaluate(asked(name))) for n, name in enumerate("acbaaaaaaaa")}
    await asyncio.sleep(0)
    waiting.pop(1).cancel()
    await asyncio.gather(*waiting.values())
    await pool.aclose()
    assert "".join(started.tasks[0]) == "a" + MOST_OVERTAKEN * "a" + "b" + "a" * (8 - MOST_OVERTAKEN)


def test_as_many_judges_as_half_the_cores_but_never_more_than_steps() -> None:
    assert judge_count(EngineConfig(concurrency=1)) == 1
    assert judge_count(EngineConfig(judges=7, concurrency=1)) == 7
    cores = len(os.sched_getaffinity(0))
    assert judge_count(EngineConfig(concurrency=1000)) == max(1, cores // 2)


async def test_a_group_takes_as_many_places_as_it_has_processes_for() -> None:
    meeting = Meeting(1)
    pool = WorkerPool([lambda: MeetingWorker(meeting)], 4)
    group = [EvaluationRequest(TASK, f"{n}\n# pike-instant: valid 2ms", EvaluateOptions()) for n in range(4)]
    slow = replace(group[0], source="wait\n# pike-instant: valid 2ms")
    try:
        first = asyncio.create_task(pool.evaluate_together([slow, *group[1:]]))  # three of four places
        single = asyncio.create_task(pool.evaluate(group[0]))
        second = asyncio.create_task(pool.evaluate_together(group))
        assert (await single).valid
        await asyncio.sleep(0.1)
        assert [event for event in meeting.events if event.startswith("end")] == [f"end {TASK.id}"]
        meeting.go.set()
        assert all(one.valid for one in [*await first, *await second])
    finally:
        meeting.go.set()
        await pool.aclose()


async def test_a_group_takes_one_place_where_judges_share_no_device() -> None:
    meeting = Meeting(2)
    pool = WorkerPool([lambda: MeetingWorker(meeting)], 2, apart=True)
    group = [EvaluationRequest(TASK, f"{n}\n# pike-instant: valid 2ms", EvaluateOptions()) for n in range(3)]
    meets = replace(group[0], source="meet\n# pike-instant: valid 2ms")
    try:
        first, other = await asyncio.gather(pool.evaluate_together([meets, *group[1:]]), pool.evaluate(meets))
        assert all(one.valid for one in [*first, other])
        assert meeting.most == 2
    finally:
        await pool.aclose()


async def test_a_group_larger_than_the_pool_is_judged_all_the_same() -> None:
    pool = WorkerPool([lambda: MeetingWorker(Meeting(1))], 2)
    group = [EvaluationRequest(TASK, f"{n}\n# pike-instant: valid 2ms", EvaluateOptions()) for n in range(9)]
    try:
        assert all(one.valid for one in await pool.evaluate_together(group))
    finally:
        await pool.aclose()
