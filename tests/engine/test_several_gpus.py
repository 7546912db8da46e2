"""Several GPUs of one machine: which one each judge sees, and how a pool shares work out over them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.engine.executors.gpus import visible
from pike.engine.executors.pool import WorkerPool

H100 = DeviceFacts("cuda:0", "H100", 80 << 30, capability="9.0", versions=(("torch", "2"),))
REQUEST = EvaluationRequest(Task("t", "t", TaskKind.SOURCE, "", "t.py"), "", EvaluateOptions(device="cuda"))


class GpuWorker:
    """Says on which GPU it judged, and whether others judged meanwhile."""

    def __init__(self, gpu: str, facts: DeviceFacts, together: threading.Barrier | None, deaths: list[str]) -> None:
        self.gpu, self._facts, self._together, self._deaths = gpu, facts, together, deaths

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        if self._together is not None:
            self._together.wait(20.0)
        if self.gpu in self._deaths:
            self._deaths.remove(self.gpu)
            raise InfraError("it died")
        return Evaluation(Status.WRONG_OUTPUT, "wrong", device=self.gpu)

    def evaluate_together(self, requests: list[EvaluationRequest], on_stage: object = None) -> list[Evaluation]:
        return [self.evaluate(request) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return self._facts

    def release(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


def pool_of(
    size: int,
    facts: tuple[DeviceFacts, ...] = (H100, H100),
    together: threading.Barrier | None = None,
    deaths: list[str] | None = None,
) -> WorkerPool:
    def start(number: int) -> Callable[[], GpuWorker]:
        return lambda: GpuWorker(f"gpu{number}", facts[number], together, deaths if deaths is not None else [])

    return WorkerPool([start(number) for number in range(len(facts))], size)


def gpus_of(pool: WorkerPool, evaluations: int) -> Counter[str]:
    """How often each GPU judged, after the pool was asked what its devices are."""

    async def run() -> Counter[str]:
        await pool.facts("cuda")
        found = await asyncio.gather(*(pool.evaluate(REQUEST) for _ in range(evaluations)))
        await pool.aclose()
        return Counter(one.device for one in found)

    return asyncio.run(run())


def test_workers_are_shared_out_evenly_and_work_at_once() -> None:
    assert gpus_of(pool_of(4, together=threading.Barrier(4)), 4) == {"gpu0": 2, "gpu1": 2}


def test_there_is_a_worker_on_each_device_however_few_were_asked_for() -> None:
    assert gpus_of(pool_of(1, together=threading.Barrier(2)), 2) == {"gpu0": 1, "gpu1": 1}


def test_fewer_workers_are_still_on_every_device() -> None:
    async def run() -> set[str]:
        pool = pool_of(6, together=threading.Barrier(2))
        await pool.facts("cuda")
        await pool.shrink(2)
        found = await asyncio.gather(*(pool.evaluate(REQUEST) for _ in range(2)))
        await pool.aclose()
        return {one.device for one in found}

    assert asyncio.run(run()) == {"gpu0", "gpu1"}


def test_a_dead_worker_is_replaced_on_its_own_device() -> None:
    deaths = ["gpu0"]
    pool = pool_of(2, deaths=deaths)
    assert gpus_of(pool, 6).keys() == {"gpu0", "gpu1"}
    assert not deaths


def test_unlike_devices_are_refused() -> None:
    with pytest.raises(UserError, match="H100 and A100 are unlike"):
        gpus_of(pool_of(2, (H100, replace(H100, name="A100"))), 1)


def test_a_candidate_is_said_to_be_with_a_worker_on_its_gpu() -> None:
    async def run() -> list[tuple[str, ...]]:
        start = [lambda number=number: GpuWorker(f"gpu{number}", H100, None, []) for number in range(2)]
        pool = WorkerPool(start, 4, ("0", "3"))
        told: list[list[str]] = [[] for _ in range(4)]
        found = await asyncio.gather(*(pool.evaluate(REQUEST, one.append) for one in told))
        await pool.aclose()
        return [(*one, verdict.device) for one, verdict in zip(told, found, strict=True)]

    assert asyncio.run(run()) == [
        ("waiting", "worker 1 on GPU 0", "gpu0"),
        ("waiting", "worker 2 on GPU 3", "gpu1"),
        ("waiting", "worker 3 on GPU 0", "gpu0"),
        ("waiting", "worker 4 on GPU 3", "gpu1"),
    ]


def test_one_device_means_the_same_one_for_finalists_and_their_original() -> None:
    async def run() -> list[Evaluation]:
        pool = pool_of(4)
        found = await pool.evaluate_together([REQUEST] * 4)
        await pool.aclose()
        return found

    assert len({one.device for one in asyncio.run(run())}) == 1


@pytest.mark.parametrize(
    ("variable", "devices", "entries"),
    [
        (None, [], ("",)),
        (None, ["all"], ("0", "1", "2")),
        (None, ["cuda:2", "cuda:0"], ("2", "0")),
        ("GPU-aaa,MIG-bbb", ["all"], ("GPU-aaa", "MIG-bbb")),
        ("5,7", ["cuda:1"], ("7",)),
    ],
)
def test_what_a_judge_sees(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, devices: list[str], entries: tuple[str, ...]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible(devices, lambda: 3) == entries


@pytest.mark.parametrize(
    ("devices", "count", "words"),
    [
        (["all"], 0, "sees no CUDA device"),
        (["cuda:1"], 1, "'cuda:1' is not here: torch sees 1"),
        (["cuda:0", "cuda:0"], 2, "twice"),
        (["cpu"], 2, "unknown device 'cpu'"),
        (["all", "cuda:0"], 2, "unknown device 'all'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, devices: list[str], count: int, words: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(UserError, match=words):
        visible(devices, lambda: count)
