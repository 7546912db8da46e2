"""Judges on a real Ray cluster of two nodes on this machine: same verdicts, and lost ones are replaced."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.engine.executors import WorkerPool
from pike.engine.executors.instant import instant_verdict

ray = pytest.importorskip("ray", reason="needs the extra ray")
from pike.engine.executors.ray_workers import RayWorker, RayWorkers  # noqa: E402

pytestmark = pytest.mark.slow
TASK = Task("t", "t", TaskKind.SOURCE, "class Model: pass\n", "t.py")
MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + x.sin()
def get_inputs():
    return [torch.randn(64, 64)]
def get_init_inputs():
    return []
"""


class SlowInstant:
    """Judges as the instant executor does, after a while."""

    def evaluate_together(self, requests: list[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        on_stage("build")
        time.sleep(0.3)
        return [instant_verdict(request) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "made up")

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    made.add_node(num_cpus=4)
    yield made
    ray.shutdown()
    made.shutdown()


def request(number: int) -> EvaluationRequest:
    return EvaluationRequest(TASK, f"# candidate {number}\n", EvaluateOptions(device="cpu"))


def verdicts(pool: WorkerPool, numbers: range, harm: Any = None) -> list[Evaluation]:
    async def run() -> list[Evaluation]:
        asked = [asyncio.create_task(pool.evaluate(request(number))) for number in numbers]
        if harm is not None:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(harm)
        try:
            return await asyncio.gather(*asked)
        finally:
            await pool.aclose()

    return asyncio.run(run())


def test_a_real_judge_on_a_node_gives_its_verdict_and_tells_its_stages(cluster: Any) -> None:
    workers = RayWorkers(cluster.address)
    worker, stages = workers.start(), list[str]()
    options = EvaluateOptions(device="cpu", threads=1, max_timing_seconds=0.2, correctness_seeds=1, lint=False)
    task = Task("sums", "sums", TaskKind.SOURCE, MODEL, "sums.py")
    right = MODEL.replace("class Model(", "class ModelNew(")
    found = worker.evaluate(EvaluationRequest(task, right, options), stages.append)
    assert found.status is Status.VALID, found.reason
    assert stages[:3] == [f"worker on {os.uname().nodename}", "parse", "build"]
    wrong = worker.evaluate(EvaluationRequest(task, right.replace("x.sin()", "x.cos()"), options))
    assert wrong.status is Status.WRONG_OUTPUT
    with pytest.raises(UserError, match="Unknown device 'tpu'"):
        worker.facts("tpu")
    worker.close()


def test_killed_actors_are_replaced_and_verdicts_stay_the_same(cluster: Any) -> None:
    made: list[RayWorker] = []
    workers = RayWorkers(cluster.address, SlowInstant)

    def start() -> RayWorker:
        made.append(workers.start())
        return made[-1]

    def harm() -> None:
        made[0].kill()

    found = verdicts(WorkerPool([start], 3), range(12), harm)
    assert found == [instant_verdict(request(number)) for number in range(12)]
    assert len(made) > 3, "no worker was replaced: nothing was killed"


def test_a_lost_node_costs_no_verdict(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=4)
    workers = RayWorkers(cluster.address, SlowInstant)
    found = verdicts(WorkerPool([workers.start], 4), range(16), lambda: cluster.remove_node(node, allow_graceful=False))
    assert found == [instant_verdict(request(number)) for number in range(16)]


def test_another_version_on_a_node_is_one_sentence(cluster: Any) -> None:
    worker = RayWorkers(cluster.address, SlowInstant).start()
    assert isinstance(worker, RayWorker)
    with pytest.raises(UserError, match=r"has pike .* instead of 99"):
        worker.require_alike((("pike", "99"), ("torch", "99"), ("numpy", "99")))


def test_no_cluster_is_one_sentence(tmp_path: Path) -> None:
    ray.shutdown()
    with pytest.raises(UserError, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        RayWorkers("127.0.0.1:1")
