"""Judges on a real Ray cluster of two nodes on this machine: same verdicts, and lost ones are replaced."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_material import TASK as TINY
from engine_material import config, events, wiring, write_script
from ray_driver import SlowInstant
from test_engine_kill import by_prompt, check_money, check_verdicts, has_begun, places

from pike import engine
from pike.api import judging
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Resumed
from pike.core.settings.config import EngineConfig
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.engine.executors.choice import explorer_of, remote
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.pool import WorkerPool
from pike.recipes.search.explored import Explored

ray = pytest.importorskip("ray", reason="needs the extra ray")
from pike.engine.executors.ray_workers import RayWorker, RayWorkers  # noqa: E402

DRIVER = Path(__file__).with_name("ray_driver.py")
KILLS = 2
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


class OnGpu(SlowInstant):
    """Says which kind of GPU Ray gave it."""

    def evaluate_together(self, requests: list[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        found = super().evaluate_together(requests, on_stage)
        return [replace(one, device=self.facts("cuda").name) for one in found]

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cuda:0", next(name for name in self._given() if name.startswith("accelerator_type:")))

    @staticmethod
    def _given() -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())


class OnNode(SlowInstant):
    """Says that its device is called as its node."""

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", f"processor of {ray.get_runtime_context().get_node_id()}")


class WithDriver(SlowInstant):
    """Says that each node has another NVIDIA driver, or that all have one."""

    def __init__(self, alike: bool) -> None:
        self._alike = alike

    def facts(self, device: str) -> DeviceFacts:
        driver = "570.1" if self._alike else ray.get_runtime_context().get_node_id()
        return DeviceFacts("cuda:0", "made up", versions=(("torch", "instant"), ("driver", driver)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    for module in (__name__, SlowInstant.__module__):
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])
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


def together(workers: RayWorkers, count: int) -> list[DeviceFacts]:
    """What several workers that are there at once say of their devices."""
    started = [workers.start() for _ in range(count)]
    try:
        return [worker.facts("auto") for worker in started]
    finally:
        for worker in started:
            worker.kill()


@pytest.mark.slow
def test_a_real_judge_on_a_node_gives_its_verdict_and_tells_its_stages(cluster: Any) -> None:
    workers = RayWorkers(cluster.address)
    worker, stages = workers.start(), list[str]()
    options = EvaluateOptions(device="cpu", threads=1, max_timing_seconds=0.2, correctness_seeds=1, lint=False)
    task = Task("sums", "sums", TaskKind.SOURCE, MODEL, "sums.py")
    right = MODEL.replace("class Model(", "class ModelNew(")
    found = worker.evaluate_together([EvaluationRequest(task, right, options)], stages.append)[0]
    assert found.status is Status.VALID, found.reason
    assert stages[:3] == [f"worker on {os.uname().nodename}", "parse", "build"]
    wrong = worker.evaluate_together([EvaluationRequest(task, right.replace("x.sin()", "x.cos()"), options)])[0]
    assert wrong.status is Status.WRONG_OUTPUT
    with pytest.raises(UserError, match="Unknown device 'tpu'"):
        worker.facts("tpu")
    worker.close()


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_lost_node_costs_no_verdict(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=4)
    workers = RayWorkers(cluster.address, SlowInstant)
    found = verdicts(WorkerPool([workers.start], 4), range(16), lambda: cluster.remove_node(node, allow_graceful=False))
    assert found == [instant_verdict(request(number)) for number in range(16)]


@pytest.mark.slow
def test_a_pool_whose_judges_wait_for_a_node_can_be_closed(cluster: Any) -> None:
    async def run() -> list[Any]:
        pool = WorkerPool([RayWorkers(cluster.address, SlowInstant, ["H100:2"]).start], 2)
        asked = [asyncio.create_task(pool.evaluate(request(number))) for number in range(2)]
        await asyncio.wait(asked, timeout=2)
        asked[0].cancel()
        await pool.aclose()
        return await asyncio.gather(*asked, return_exceptions=True)

    cancelled, ended = asyncio.run(run())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert ended.status is Status.INFRA_ERROR


@pytest.mark.slow
def test_another_version_on_a_node_is_one_sentence(cluster: Any) -> None:
    worker = RayWorkers(cluster.address, SlowInstant).start()
    assert isinstance(worker, RayWorker)
    with pytest.raises(UserError, match=r"has pike .* instead of 99"):
        worker.require_alike((("pike", "99"), ("torch", "99"), ("numpy", "99")))


@pytest.mark.slow
def test_a_run_uses_gpus_of_one_kind(cluster: Any) -> None:
    kinds = {"H100": 2, "A100": 1}
    nodes = [
        cluster.add_node(num_cpus=2, num_gpus=gpus, resources={f"accelerator_type:{kind}": 1})
        for kind, gpus in kinds.items()
    ]
    try:
        with pytest.raises(UserError, match=r"GPUs are 1 A100, 2 H100, .* name one kind, for example --devices H100"):
            RayWorkers(cluster.address, OnGpu)
        with pytest.raises(UserError, match=r"GPUs are 1 A100, 2 H100"):
            remote(EngineConfig(executor=f"ray:{cluster.address}", devices=("B200",)))
        workers = RayWorkers(cluster.address, OnGpu, ["A100"])
        found = verdicts(WorkerPool([workers.start], workers.size), range(8))
        assert {one.device for one in found} == {"accelerator_type:A100"}
        many = RayWorkers(cluster.address, OnGpu, ["A100"], judges=6)
        assert len(together(many, 6)) == 6  # more than usual have room on its one GPU
    finally:
        for node in nodes:
            cluster.remove_node(node)


@pytest.mark.slow
def test_nodes_with_unlike_devices_are_one_sentence(cluster: Any) -> None:
    with pytest.raises(UserError, match=r"judges on processor of .* and another one on processor of"):
        together(RayWorkers(cluster.address, OnNode), 4)


@pytest.mark.slow
def test_nodes_with_unlike_drivers_are_one_sentence(cluster: Any) -> None:
    with pytest.raises(UserError, match=r"judges on made up with driver .* another one on made up with driver"):
        together(RayWorkers(cluster.address, lambda: WithDriver(alike=False)), 4)
    assert len(together(RayWorkers(cluster.address, lambda: WithDriver(alike=True)), 4)) == 4


@pytest.mark.slow
def test_recipes_look_at_a_model_on_a_node(cluster: Any) -> None:
    async def run() -> Explored:
        pool = WorkerPool([RayWorkers(cluster.address, SlowInstant).start], 1)
        explorer = explorer_of(pool, EngineConfig(executor="ray"))
        task = Task("sums", "sums", TaskKind.SOURCE, MODEL, "sums.py")
        device = DeviceFacts("cpu", "made up")
        found = await asyncio.to_thread(explorer.explore, task, device, EvaluateOptions(device="cpu"))
        explorer.close()
        await pool.aclose()
        return found

    assert asyncio.run(run()).applicable


@pytest.mark.slow
def test_a_killed_driver_goes_on_and_judges_nothing_twice(cluster: Any, tmp_path: Path) -> None:
    llm = write_script(tmp_path / "s.json", by_prompt(), input_usd_per_mtok=1.0, output_usd_per_mtok=10.0)
    asyncio.run(engine.start(TINY, config(llm, 12, 4), tmp_path / "whole", wiring()))
    folder, rng = tmp_path / "killed", random.Random(3)
    everything = len(events(tmp_path / "whole"))
    kills = sorted(rng.sample(range(2, everything - 2), KILLS))
    for most in [*kills, None]:
        driver = subprocess.Popen([sys.executable, str(DRIVER), cluster.address, str(folder), llm, "12"])
        while driver.poll() is None and (most is None or not has_begun(folder) or len(events(folder)) < most):
            time.sleep(0.02)
        driver.kill()
        assert driver.wait() == (0 if most is None else -9)
    check_money(folder)
    check_verdicts(folder)
    assert places(folder) == places(tmp_path / "whole")
    assert sum(isinstance(event, Resumed) for event in events(folder)) == KILLS


def test_no_cluster_is_one_sentence(tmp_path: Path) -> None:
    ray.shutdown()
    with pytest.raises(UserError, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        RayWorkers("127.0.0.1:1")


@pytest.mark.slow
def test_the_doctor_looks_at_each_node(cluster: Any) -> None:
    here, there = judging.doctor(), judging.doctor(f"ray:{cluster.address}")
    node, _, name = there[0].name.partition(": ")
    assert node == os.uname().nodename and name == here[0].name
    assert len(there) == 2 * len(here)
