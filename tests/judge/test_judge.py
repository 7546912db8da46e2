"""What a judge keeps between candidates, and what it hands back."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from pike.core.errors import UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import (
    DEVICE_MEMORY,
    SHARED_DEVICE,
    Effort,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    Status,
)
from pike.judge import device as devices
from pike.judge.calls.reference_process import ReferenceProcess
from pike.judge.calls.runner import CallTimes
from pike.judge.child.memory.cuda_driver import CudaDriverError
from pike.judge.child.wire import Command
from pike.judge.client import JudgeClient
from pike.judge.judge import Judge
from pike.judge.prepared_task import PreparedTask
from pike.judge.processes import descendants_of
from pike.judge.reference.reference import Inputs
from pike.judge.refusal import Refused, lacks_device_memory
from pike.judge.timing.device_lock import DeviceLock, Pause

OPTIONS = EvaluateOptions(device="cpu", sandbox="process", threads=1, max_timing_seconds=0.4, correctness_seeds=2)
ZEROS = "class ModelNew(Model):\n    def forward(self, x):\n        return 0 * super().forward(x)\n"
STARVED = (
    "class ModelNew(Model):\n    def forward(self, x):\n        raise torch.OutOfMemoryError('CUDA out of memory.')\n"
)


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("reason", "lacks"),
    [
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB.", True),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling x", True),
        (f"CudaDriverError: {CudaDriverError('cuMemCreate', 2)}", True),
        ("the candidate used 9.00 GiB of memory, more than 1.00 GiB", False),
    ],
    ids=["torch", "library", "driver", "host"],
)
def test_too_little_device_memory_is_recognised(reason: str, lacks: bool) -> None:
    assert lacks_device_memory(reason) is lacks


def test_a_candidate_without_device_memory_is_labelled_and_the_judge_keeps_nothing(judge: Judge, task: Task) -> None:
    found = judge.evaluate(EvaluationRequest(task, task.source + STARVED, OPTIONS))
    assert (found.status, found.labels) == (Status.RESOURCE_LIMIT, (DEVICE_MEMORY,))
    assert not judge.keep_pids()
    again = judge.evaluate(EvaluationRequest(task, task.source + ZEROS, OPTIONS))
    assert again.status is Status.WRONG_OUTPUT and DEVICE_MEMORY not in again.labels
    assert judge.keep_pids()


def test_a_judge_without_device_memory_holds_nothing_by_the_time_it_hands_memory_back(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, a judge that had found too little kept 30 GiB: the error's frames still held them."""
    alive: list[weakref.ref[torch.Tensor]] = []
    kept: list[list[object]] = []

    def starve(request: EvaluationRequest, device: torch.device, lock: DeviceLock) -> PreparedTask:
        large = torch.zeros(8)
        alive.append(weakref.ref(large))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.66 GiB.")

    monkeypatch.setattr("pike.judge.device.release_all_memory", lambda _: kept.append([one() for one in alive]))
    found = Judge(prepare=starve).evaluate(EvaluationRequest(task, task.source + ZEROS, OPTIONS))
    assert found.status is Status.RESOURCE_LIMIT and "7.66 GiB" in found.reason
    assert found.labels == (DEVICE_MEMORY,)
    assert kept and all(one == [None] for one in kept)


def test_inputs_are_gone_when_they_are_used_without_the_garbage_collector(
    judge: Judge, task: Task, monkeypatch: pytest.MonkeyPatch, rewrite: Callable[..., str]
) -> None:
    """On a GPU a judge held 50 GiB: the collector, which counts objects and not bytes, had no reason to run."""
    drawn: list[weakref.ref[torch.Tensor]] = []
    most: list[int] = []
    draw = PreparedTask.draw

    def watched(prepared: PreparedTask, seed: int) -> Inputs:
        inputs = draw(prepared, seed)
        drawn.append(weakref.ref(inputs.args[0]))
        most.append(sum(one() is not None for one in drawn))
        return inputs

    monkeypatch.setattr(PreparedTask, "draw", watched)
    gc.collect()
    gc.disable()
    try:
        assert judge.evaluate(EvaluationRequest(task, rewrite(), OPTIONS)).status is Status.VALID
    finally:
        gc.enable()
    assert len(drawn) > 50
    assert max(most) == 2, "two outputs at once are checked on two inputs"


def test_a_judge_process_that_is_told_to_release_memory_keeps_no_process(task: Task) -> None:
    client = JudgeClient()
    client.release()
    assert not client.pid, "no judge is started for that"
    try:
        client.evaluate(EvaluationRequest(task, "class ModelNew:\n    pass\n", OPTIONS))
        assert descendants_of(client.pid)
        client.release()
        (template,) = descendants_of(client.pid)
        assert b"pike.judge.child.template" in Path(f"/proc/{template}/cmdline").read_bytes(), "it holds no device"
        assert client.evaluate(EvaluationRequest(task, "nothing", OPTIONS)).status is Status.PARSE_ERROR
    finally:
        client.close()


def test_a_preflight_leaves_the_task_prepared_for_the_first_candidate(task: Task) -> None:
    judge = Judge()
    try:
        request = EvaluationRequest(task, "nothing", OPTIONS)
        assert 0.0 < judge.preflight(request) < 1000.0
        kept = judge.keep_pids()
        assert kept and judge.evaluate(request).status is Status.PARSE_ERROR
        assert judge.preflight(replace(request, options=replace(OPTIONS, timeout_seconds=9.0))) > 0.0
        assert judge.keep_pids() == kept, "the same reference process"
        broken = replace(task, source=task.source.replace("return self.second", "return None and self.second"))
        with pytest.raises(UserError, match="nothing to compare"):
            judge.preflight(replace(request, task=broken))
    finally:
        judge.close()


class Wanted(DeviceLock):
    """A lock for which a timer always waits."""

    yielded = 0

    def yield_device(self, pause: Pause) -> float:
        self.yielded += 1
        return 0.0


def test_preparing_a_task_yields_the_device_and_judging_with_it_does_not(task: Task, tmp_path: Path) -> None:
    lock = Wanted("cpu", folder=tmp_path)
    slow = replace(task, source=task.source.replace("__init__()", "__init__()\n        __import__('time').sleep(0.5)"))
    with lock.shared():
        prepared = PreparedTask(slow, torch.device("cpu"), OPTIONS, lock)
        try:
            before = lock.yielded
            assert before > 0
            prepared.expected(prepared.draw(3))
            assert lock.yielded == before, "the candidate would go on meanwhile"
        finally:
            prepared.close()


def test_a_timer_waits_for_one_step_of_a_preparation_only(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, ready, seen = Wanted("cpu", folder=tmp_path), ReferenceProcess.ready, list[int]()

    def noticed(*arguments: Any) -> None:
        seen.append(lock.yielded)
        ready(*arguments)

    monkeypatch.setattr(ReferenceProcess, "ready", noticed)
    with lock.shared():
        PreparedTask(task, torch.device("cpu"), OPTIONS, lock).close()
    assert seen == [4], "the model is made, saved, called and copied before its process is asked for anything"


@pytest.mark.parametrize(("looks", "labelled"), [((True,), False), ((False, True), False), ((False, False), True)])
def test_a_time_beside_kernels_of_others_says_so(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: tuple[bool, ...], labelled: bool
) -> None:
    asked = iter(looks)
    monkeypatch.setattr("pike.judge.candidate_evaluation.is_quiet", lambda _: next(asked))
    judge = Judge(lock_of=lambda name, pause: DeviceLock(name, pause, tmp_path))
    found = judge.evaluate(EvaluationRequest(task, task.source + "class ModelNew(Model):\n    pass\n", OPTIONS))
    judge.close()
    assert found.valid and (SHARED_DEVICE in found.labels) is labelled
    assert next(asked, None) is None


def test_one_transfer_that_is_held_up_does_not_make_the_original_look_instant(task: Task, tmp_path: Path) -> None:
    lock = DeviceLock("cpu", folder=tmp_path)
    with lock.shared():
        prepared = PreparedTask(task, torch.device("cpu"), OPTIONS, lock)
    true_call, empty = prepared.reference_process.call, 0

    def call(packed: object, command: Command = Command.RUN) -> CallTimes:
        nonlocal empty
        true_call(packed, command)
        if command is not Command.NULL:
            return CallTimes(3e6, 3e6)
        empty += 1
        return CallTimes(1e9, 1e9) if empty == 2 else CallTimes(1e6, 1e6)

    try:
        prepared.reference_process.call = call  # type: ignore[method-assign, assignment]
        assert prepared.call_ms() == pytest.approx(2.0)
    finally:
        prepared.close()


def test_the_gpu_in_use_is_the_current_one(task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else kernels that are launched by the driver run in the context of another GPU, on memory of this one."""
    judge = Judge(lock_of=lambda *_: DeviceLock("gpu-1", folder=tmp_path))
    monkeypatch.setattr(devices, "resolve", lambda _: torch.device("cuda:1"))
    monkeypatch.setattr(devices, "machine_name", lambda _: "gpu-1")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    made = list[torch.device]()

    def set_device(device: torch.device) -> None:
        made.append(device)
        raise CudaDriverError("cuCtxCreate", 999)

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    for use in (judge.lint, lambda task, options: judge.evaluate(EvaluationRequest(task, "", options))):
        with pytest.raises(CudaDriverError):
            use(task, OPTIONS)
    assert made == [torch.device("cuda:1")] * 2


def test_a_time_limit_that_was_over_before_timing_is_not_waited_for_again(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What PIKE wrote itself, as the ways of `torch.compile`; a finalist that was slow in a crowd has another try."""
    judge, alone = Judge(), list[EvaluationRequest]()
    slow, hung = (Evaluation(Status.TIMEOUT, seconds=((stage, 180.0),)) for stage in ("build", "time"))
    monkeypatch.setattr(judge, "_together", lambda *_: [slow, hung, slow])
    monkeypatch.setattr(judge, "evaluate", lambda request, _: alone.append(request) or hung)
    terms = {"slow": "baseline", "hung": "baseline", "own": ""}
    requests = [EvaluationRequest(task, name, OPTIONS, caches=caches) for name, caches in terms.items()]
    try:
        assert [one.status for one in judge.evaluate_together(requests)] == [Status.TIMEOUT] * 3
    finally:
        judge.close()
    assert [one.source for one in alone] == ["hung", "own"]


class Member:
    """Stands for one of a group: `wrong` is refused before, all others hang while they are timed."""

    misfit = None
    closed: ClassVar[list[str]] = []

    def __init__(self, request: EvaluationRequest, *_: object) -> None:
        self.source, self.status = request.source, Status.VALID

    def admit(self, _: object) -> None:
        if self.source == "wrong":
            raise Refused(Status.WRONG_OUTPUT, "output 0")

    def clocked(self, *_: object) -> None:
        assert self.closed == ["wrong"], "it would run on beside those that are timed"
        raise Refused(Status.TIMEOUT, "a call that is timed")

    def refused(self, status: Status, _: str) -> None:
        self.status = status

    def verdict(self) -> Evaluation:
        return Evaluation(self.status)

    def parse(self) -> None: ...

    def close(self) -> None:
        self.closed.append(self.source)

    waiting = nullcontext


def test_a_call_that_fails_while_a_group_is_timed_refuses_no_one_who_was_refused_before(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, prepared = Judge(), SimpleNamespace(shape=SimpleNamespace(outputs=SimpleNamespace(nbytes=4)))
    monkeypatch.setattr("pike.judge.judge.CandidateEvaluation", Member)
    monkeypatch.setattr(Member, "closed", [])
    monkeypatch.setattr(judge, "_prepared_for", lambda *_: prepared)
    requests = [EvaluationRequest(task, source, OPTIONS) for source in ("one", "wrong", "other")]
    try:
        found = judge._together(requests, SimpleNamespace(device=torch.device("cpu")), lambda _: None)  # type: ignore[arg-type]
    finally:
        judge.close()
    assert [one.status for one in found] == [Status.TIMEOUT, Status.WRONG_OUTPUT, Status.TIMEOUT]


def test_a_lint_yields_the_device_between_its_draws(task: Task, tmp_path: Path) -> None:
    lock = Wanted("cpu", folder=tmp_path)
    judge = Judge(lock_of=lambda *_: lock)
    try:
        assert judge.lint(task, OPTIONS).answers
    finally:
        judge.close()
    assert lock.yielded >= 2


def test_candidates_in_company_are_timed_in_the_same_sessions_and_a_wrong_one_is_refused_alone(
    task: Task, rewrite: Callable[..., str]
) -> None:
    """As finalists are; which rounds count may differ, as others may disturb one candidate's block only."""
    client, stages = JudgeClient(), list[str]()
    sources = [rewrite(), task.source + ZEROS, rewrite() + "\n# another one\n"]
    requests = [EvaluationRequest(task, source, OPTIONS, Effort.FINAL) for source in sources]
    try:
        one, wrong, other = client.evaluate_together(requests, stages.append)
        assert [found.status for found in (one, wrong, other)] == [Status.VALID, Status.WRONG_OUTPUT, Status.VALID]
        assert one.timing and one.timing.worst and other.timing and other.timing.worst
        assert one.timing.blocks + one.timing.dropped_blocks == other.timing.blocks + other.timing.dropped_blocks
        assert one.tolerance is other.tolerance
        assert stages.count("time") == 2, "the wrong one, judged once more alone, was never timed"
        assert len(descendants_of(client.pid)) == 2, "the template and the reference: no candidate is left"
    finally:
        client.close()
