"""Judge processes on this machine.

Knows how many this machine and its devices can bear. Does not share work out (`pool`).
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import closing

from pike.core.device import DeviceFacts
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import EvaluationRequest
from pike.engine.executors import gpus
from pike.engine.executors.contract import Worker
from pike.engine.executors.exploring import ProcessExplorer
from pike.engine.executors.pool import Slot, WorkerPool, terms_of

JUDGE_BYTES = 6 << 30
"""Device memory that each judge should find at least: its four processes hold 0.7 to 1 GiB each on
an H100 before any model lies there (docs/experiments/2026-11-23-h100-0-winners-of-h200s.md)."""


def judge_count(config: EngineConfig, facts: DeviceFacts | None = None, devices: int = 1) -> int:
    """How many judges work on this machine.

    Args:
        config: may name the number; otherwise there is one for each two cores, and no more than
            steps in flight.
        facts: the device, once it is known; then there is also one at most for each `JUDGE_BYTES`
            of its memory.
        devices: how many such devices there are.
    """
    if config.judges:
        return config.judges
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    room = devices * (facts.memory_bytes // JUDGE_BYTES) if facts is not None and facts.is_cuda else cores
    return max(devices, min(cores // 2, config.concurrency, room))


class LocalExecutor(WorkerPool):
    """A pool of judge processes on this machine.

    Args:
        config: how many may work at once; fewer if it leaves that open and the device has memory
            for fewer.
        start: makes one worker, by default `pike.judge.client.JudgeClient` on each device.

    Raises:
        UserError: a device that the config names is not here.
    """

    def __init__(self, config: EngineConfig, start: Callable[[], Worker] | None = None) -> None:
        starts = [start] if start else gpus.starts(config.devices)
        places = () if start else gpus.entries(config.devices)
        super().__init__(starts, judge_count(config, devices=len(starts)), places)
        self._config, self._devices = config, len(starts)
        self._preparing: asyncio.Future[list[BaseException | None]] | None = None

    def prepare(self, request: EvaluationRequest) -> None:
        """Have every idle judge that prepared nothing yet prepare the request's task; what fails, fails unsaid."""
        if self._preparing is None or self._preparing.done():
            blank = filter(_is_blank, self._idle)
            self._preparing = asyncio.gather(*(self._prepared(request) for _ in blank), return_exceptions=True)

    async def _prepared(self, request: EvaluationRequest) -> None:
        async with self._among_others():
            if any(map(_is_blank, self._idle)):
                await self._with_worker(lambda judge: judge.preflight(request), terms_of(request), _is_blank)

    async def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """What a process of its own finds out."""
        with closing(ProcessExplorer(gpus.entries(self._config.devices))) as explorer:
            return (await asyncio.to_thread(explorer.explore, request.task, device, request.options)).text

    async def aclose(self) -> None:
        """End every judge; one that is still working is killed."""
        if self._preparing is not None:
            self._preparing.cancel()
        await super().aclose()
        if self._preparing is not None:
            await asyncio.gather(self._preparing, return_exceptions=True)

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is; from then on no more judges work than find memory on it."""
        found = await super().facts(device)
        await self.shrink(judge_count(self._config, found, self._devices))
        return found


def _is_blank(slot: Slot) -> bool:
    """Whether its judge has prepared nothing."""
    return slot.prepared is None
