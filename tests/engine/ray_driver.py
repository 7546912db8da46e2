"""A run on a Ray cluster with an instant judge that takes its time, begun or resumed: `ray_driver.py ADDRESS FOLDER LLM QUERIES`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from engine_material import TASK, config, wiring

from pike import engine
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.pool import WorkerPool


class SlowInstant:
    """Judges as the instant executor does, after a while."""

    def evaluate_together(self, requests: list[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        on_stage("build")
        time.sleep(0.3)
        return [instant_verdict(request) for request in requests]

    def preflight(self, request: EvaluationRequest) -> None: ...

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "instant", versions=(("torch", "instant"),))

    def close(self) -> None: ...


async def main(address: str, folder: Path, llm: str, queries: int) -> None:
    import ray

    from pike.engine.executors.ray_workers import RayWorkers

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    parts = wiring(executor=WorkerPool([RayWorkers(address, SlowInstant).start], 2))
    try:
        await engine.resume_run(folder, parts)
    except UserError as error:
        if "never began" not in str(error) and "no run" not in str(error):
            raise
        await engine.start(TASK, config(llm, queries, 4), folder, parts)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
