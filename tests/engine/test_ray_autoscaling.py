"""Judges on a Ray cluster whose nodes come when judges wait for them, and go when judges are idle."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from autoscaling_cluster import autoscaling_cluster
from engine_material import TASK, config, wiring, write_script
from ray_driver import SlowInstant
from test_engine_kill import by_prompt, check_verdicts, places
from test_ray_workers import OnGpu

from pike import engine, llm
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.query import Answer, Query
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.engine.executors.choice import remote
from pike.engine.executors.pool import WorkerPool

ray = pytest.importorskip("ray", reason="needs the extra ray")
from pike.engine.executors.ray_workers import RayWorkers  # noqa: E402

IDLE_SECONDS = 2.0
PATIENCE_SECONDS = 120.0


@dataclass
class Noting(SlowInstant):
    """Notes in a folder what it judges, and on which node."""

    folder: Path

    def evaluate_together(self, requests: list[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        found = super().evaluate_together(requests, on_stage)
        with (self.folder / f"{ray.get_runtime_context().get_actor_id()}").open("a") as file:
            file.writelines(f"{request.effort.value} {request.source!r}\n" for request in requests)
        return found


@dataclass
class Breaking:
    """A model that takes a break before a query until something has happened."""

    client: Any
    before: int
    happened: Callable[[], bool]
    asked: int = 0
    breaks: list[float] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def complete(self, query: Query) -> Answer:
        self.asked += 1
        if self.asked >= self.before:
            began = time.monotonic()
            while not self.happened():
                assert time.monotonic() < began + PATIENCE_SECONDS, "the idle nodes stay"
                await asyncio.sleep(0.5)
            self.breaks.append(time.monotonic() - began)
        return await self.client.complete(query)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ray.shutdown()
    for module in (__name__, OnGpu.__module__, SlowInstant.__module__):
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])
    node = {"CPU": 4, "GPU": 2, "accelerator_type:H100": 1}
    with autoscaling_cluster(tmp_path_factory.mktemp("cluster"), node, 2, IDLE_SECONDS) as address:
        yield address
        ray.shutdown()


def nodes() -> int:
    """How many nodes judge now: all but the head."""
    return sum(node["Alive"] for node in ray.nodes()) - 1


@pytest.mark.slow
def test_a_cluster_without_nodes_wants_to_know_what_may_come(address: str) -> None:
    with pytest.raises(UserError, match=r"has 0 CPUs now, .*--set engine.judges=8.*--devices H100:8"):
        remote(EngineConfig(executor=f"ray:{address}"))
    with pytest.raises(UserError, match=r"GPUs are none, .* for example --devices H100:8"):
        remote(EngineConfig(executor=f"ray:{address}", devices=("H100",)))
    workers = RayWorkers(address, kinds=["H100:4"])
    assert (workers.size, workers.gpus) == (16, 4)


@pytest.mark.slow
def test_nodes_come_for_a_run_and_go_while_it_waits_for_its_model(address: str, tmp_path: Path) -> None:
    script = write_script(tmp_path / "s.json", by_prompt())
    asyncio.run(engine.start(TASK, config(script, 12, 1), tmp_path / "whole", wiring()))
    judged = tmp_path / "judged"
    judged.mkdir()
    models = list[Breaking]()

    def connect(*named: Any) -> Breaking:
        models.append(Breaking(llm.connect(*named), 6, lambda: not nodes()))
        return models[-1]

    async def run() -> None:
        workers = RayWorkers(address, lambda: Noting(judged), judges=4)
        pool = WorkerPool([workers.start], workers.size, idle_seconds=IDLE_SECONDS)
        assert (workers.size, nodes()) == (4, 0)
        await engine.start(TASK, config(script, 12, 4), tmp_path / "run", wiring(executor=pool, connect=connect))

    asyncio.run(run())
    assert max(models[0].breaks) > 1, "no node had come before the break"
    check_verdicts(tmp_path / "run")
    assert places(tmp_path / "run") == places(tmp_path / "whole")
    noted = Counter(line for file in judged.iterdir() for line in file.read_text().splitlines())
    assert len(list(judged.iterdir())) > 1
    assert set(noted.values()) == {1}, "something was judged twice"


@pytest.mark.slow
def test_gpus_that_are_named_come(address: str) -> None:
    async def run() -> DeviceFacts:
        pool = WorkerPool([RayWorkers(address, OnGpu, ["H100:4"]).start], 1)
        try:
            return await pool.facts("auto")
        finally:
            await pool.aclose()

    assert asyncio.run(run()).name == "accelerator_type:H100"
