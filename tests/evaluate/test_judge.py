"""When a candidate is tried a second time."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pike.core.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status, Timing
from pike.core.task import Task
from pike.evaluate.bench import Bench
from pike.evaluate.child.cuda_driver import CudaDriverError
from pike.evaluate.client import JudgeClient
from pike.evaluate.judge import Judge
from pike.evaluate.lease import Lease
from pike.evaluate.processes import descendants_of
from pike.evaluate.reference import Inputs
from pike.evaluate.trial import Trial

STARVED = Evaluation(Status.RESOURCE_LIMIT, "OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB.")
LIBRARY = Evaluation(Status.RESOURCE_LIMIT, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling x")
DRIVER = Evaluation(Status.INFRA_ERROR, f"CudaDriverError: {CudaDriverError('cuMemCreate', 2)}")
OURS = Evaluation(Status.INFRA_ERROR, "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.")
VALID = Evaluation(Status.VALID, timing=Timing(2.0, 1.0, 2.0, (1.9, 2.1), 6, 60, 0.01))
TIMEOUT = Evaluation(Status.TIMEOUT, "the candidate used more than its 120 seconds")
WRONG = Evaluation(Status.WRONG_OUTPUT, "wrong")


@pytest.mark.parametrize(
    ("verdicts", "owed"),
    [
        ([STARVED, VALID], Status.VALID),
        ([DRIVER, VALID], Status.VALID),
        ([STARVED, STARVED], Status.RESOURCE_LIMIT),
        ([STARVED, TIMEOUT], Status.RESOURCE_LIMIT),
        ([LIBRARY, VALID], Status.VALID),
        ([OURS, VALID], Status.VALID),
        ([OURS, OURS], Status.INFRA_ERROR),
        ([WRONG], Status.WRONG_OUTPUT),
        ([Evaluation(Status.RESOURCE_LIMIT, "the candidate used 9.00 GiB of memory, more than 1.00 GiB")],
         Status.RESOURCE_LIMIT),
    ],
    ids=["memory-was-taken", "driver", "needs-too-much", "does-not-end", "library", "the-judge", "the-judge-again", "wrong", "host-memory"],
)  # fmt: skip
def test_who_finds_no_device_memory_is_tried_again_with_the_device_to_itself(
    monkeypatch: pytest.MonkeyPatch, task: Task, tmp_path: Path, verdicts: list[Evaluation], owed: Status
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # judges of other tests would make room for this one
    coming, seen = list(verdicts), []

    def tried(self: Judge, trial: object, request: EvaluationRequest, roofline: object) -> Evaluation:
        seen.append(request.options.timeout_seconds)
        return coming.pop(0)

    monkeypatch.setattr(Judge, "_tried", tried)
    found = Judge().evaluate(EvaluationRequest(task, "", EvaluateOptions(device="cpu", sandbox="process")))
    assert found.status is owed
    assert not coming
    assert seen == [900.0, 300.0][: len(verdicts)]


def test_at_a_level_that_hides_no_files_the_next_child_fits_any_task(task: Task) -> None:
    terms, judge, at_work = EvaluateOptions(device="cpu", sandbox="process", threads=1), Judge(), set[int]()
    zeros = "class ModelNew(Model):\n    def forward(self, x):\n        return 0 * super().forward(x)\n"
    try:
        wrong = judge.evaluate(EvaluationRequest(task, task.source + zeros, terms))
        spare = judge._nursery.pids
        assert wrong.status is Status.WRONG_OUTPUT and len(spare) == 1

        def on_stage(stage: str) -> None:
            if stage == "build":
                at_work.update(pid for pid in spare - judge._nursery.pids if Path(f"/proc/{pid}").exists())

        other = replace(task, id="other", name="other", source=task.source + "# another task\n")
        again = judge.evaluate(EvaluationRequest(other, task.source + zeros, terms), on_stage)
        assert again.status is Status.WRONG_OUTPUT, again.reason
        assert at_work == spare, "the spare of the first task judged the second"
    finally:
        judge.close()


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something to become true, but not for ever."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_memory_is_found_once_nobody_else_is_at_work_and_idle_judges_have_handed_back_theirs(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    request = EvaluationRequest(task, "", EvaluateOptions(device="cpu", sandbox="process", threads=1))
    idle, queued, busy, starved = Judge(), Judge(), Judge(), Judge()
    at_work, coming, seen = threading.Event(), [STARVED, VALID], []

    def working(trial: Trial, *_: object) -> Evaluation:
        at_work.set()
        wait_until(trial.lease.room_wanted)
        idle.make_room()
        next_in_line.start()
        wait_until(lambda: queued._bench is None)
        at_work.clear()
        return VALID

    def starving(trial: Trial, *_: object) -> Evaluation:
        seen.append((trial.lease.alone, at_work.is_set(), idle._bench is None, queued._bench is None))
        return coming.pop(0)

    monkeypatch.setattr(busy, "_tried", working)
    monkeypatch.setattr(starved, "_tried", starving)
    neighbour = threading.Thread(target=busy.evaluate, args=(request,))
    broken = replace(request, source="class ModelNew:\n    pass\n")
    next_in_line = threading.Thread(target=queued.evaluate, args=(broken,))
    try:
        for judge in (idle, queued):
            judge.evaluate(broken)
            judge.make_room()
            assert judge._bench is not None, "nobody waits for room"
        neighbour.start()
        assert at_work.wait(60.0)
        assert starved.evaluate(request).valid
        assert seen == [(False, True, False, False), (True, False, True, True)]
    finally:
        neighbour.join()
        next_in_line.join()
        idle.close()
        queued.close()


def test_memory_that_is_free_again_is_used_beside_others_one_evaluation_at_a_time(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A GPU stood idle for minutes: who had found no memory waited for a neighbour that was compiling, all others too."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("pike.evaluate.device.has_room", lambda *_: True)
    request = EvaluationRequest(task, "", EvaluateOptions(device="cpu", sandbox="process", threads=1))
    busy, starved, later = Judge(), [Judge(), Judge()], Judge()
    at_work, leave = threading.Event(), threading.Event()
    again: list[int] = []
    most: list[int] = []

    def working(*_: object) -> Evaluation:
        at_work.set()
        assert leave.wait(60.0)
        return VALID

    def starving_first(coming: list[Evaluation]) -> Callable[..., Evaluation]:
        def tried(trial: Trial, *_: object) -> Evaluation:
            if len(coming) == 1:
                assert not trial.lease.alone
                again.append(1)
                time.sleep(0.2)
                most.append(len(again))
                again.pop()
            return coming.pop(0)

        return tried

    monkeypatch.setattr(busy, "_tried", working)
    monkeypatch.setattr(later, "_tried", lambda *_: VALID)
    for judge in starved:
        monkeypatch.setattr(judge, "_tried", starving_first([STARVED, VALID]))
    neighbour = threading.Thread(target=busy.evaluate, args=(request,))
    found: list[Evaluation] = []
    others = [threading.Thread(target=lambda judge=judge: found.append(judge.evaluate(request))) for judge in starved]
    neighbour.start()
    try:
        assert at_work.wait(60.0)
        for thread in others:
            thread.start()
        for thread in others:
            thread.join(20.0)
        assert [one.status for one in found] == [Status.VALID] * 2, "they did not wait for the neighbour"
        assert most == [1, 1]
        assert later.evaluate(request).valid
    finally:
        leave.set()
        neighbour.join()


def test_what_a_failed_evaluation_held_is_handed_back_before_it_waits_for_all_of_it(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, two judges that found no memory each kept 30 GiB while they waited for the other's."""
    alive, kept, waited = [], [], []

    def starving(*_: object) -> Bench:
        large = torch.zeros(8)
        alive.append(weakref.ref(large))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.66 GiB.")

    @contextmanager
    def throughout(_: Lease) -> Iterator[None]:
        waited.append(list(kept))
        yield

    def hand_back(_: torch.device) -> None:
        kept.append([one() for one in alive])

    monkeypatch.setattr("pike.evaluate.judge.Bench", starving)
    monkeypatch.setattr("pike.evaluate.device.hand_back_memory", hand_back)
    monkeypatch.setattr(Lease, "throughout", throughout)
    judge = Judge()
    source = "class ModelNew:\n    pass\n"
    found = judge.evaluate(EvaluationRequest(task, source, EvaluateOptions(device="cpu", sandbox="process")))
    assert found.status is Status.INFRA_ERROR and "7.66 GiB" in found.reason
    assert len(alive) == 2 and waited and waited[0]
    assert all(one == [None] for one in waited[0])


def test_inputs_are_gone_when_they_are_used_without_the_garbage_collector(
    task: Task, monkeypatch: pytest.MonkeyPatch, rewrite: Callable[..., str]
) -> None:
    """On a GPU a judge held 50 GiB: the collector, which counts objects and not bytes, had no reason to run."""
    drawn: list[weakref.ref[torch.Tensor]] = []
    most = []
    draw = Bench.draw

    def watched(bench: Bench, seed: int) -> Inputs:
        inputs = draw(bench, seed)
        drawn.append(weakref.ref(inputs.args[0]))
        most.append(sum(one() is not None for one in drawn))
        return inputs

    monkeypatch.setattr(Bench, "draw", watched)
    options = EvaluateOptions(device="cpu", sandbox="process", threads=1, max_timing_seconds=0.4, correctness_seeds=2)
    judge = Judge()
    gc.collect()
    gc.disable()
    try:
        assert judge.evaluate(EvaluationRequest(task, rewrite(), options)).status is Status.VALID
    finally:
        gc.enable()
        judge.close()
    assert len(drawn) > 50
    assert max(most) == 2, "two outputs at once are checked on two inputs"


def test_a_judge_process_without_work_hands_back_a_devices_memory(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    terms = EvaluateOptions(device="cpu", sandbox="process", threads=1)
    judge = JudgeClient()

    def need_everything() -> None:
        with Lease("cpu").throughout():
            pass

    try:
        judge.evaluate(EvaluationRequest(task, "class ModelNew:\n    pass\n", terms))
        process = judge._process
        assert process is not None and descendants_of(process.pid)
        with Lease("cpu").present(lambda: None):
            other = threading.Thread(target=need_everything)
            other.start()
            wait_until(lambda: not descendants_of(process.pid))
            assert not descendants_of(process.pid)
        other.join()
        assert judge.evaluate(EvaluationRequest(task, "nothing", terms)).status is Status.PARSE_ERROR
    finally:
        judge.close()


class _Wanted(Lease):
    """Somebody always waits."""

    ways = 0

    def wanted(self) -> bool:
        return True

    def make_way(self) -> float:
        self.ways += 1
        return 0.0


def test_preparing_a_task_makes_way_and_judging_with_it_does_not(task: Task, tmp_path: Path) -> None:
    lease = _Wanted("cpu", tmp_path)
    with lease.shared():
        bench = Bench(task, torch.device("cpu"), EvaluateOptions(device="cpu", threads=1), lease)
        try:
            before = lease.ways
            assert before > 0
            bench.expected(bench.draw(3))
            assert lease.ways == before, "a candidate is near, and would go on"
        finally:
            bench.close()
