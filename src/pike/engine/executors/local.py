"""Judge processes on this machine.

Knows how many this machine and its device can bear. Does not share work out (`pool`).
"""

import os
from collections.abc import Callable

from pike.core.device import DeviceFacts
from pike.core.settings.config import EngineConfig
from pike.engine.executors.contract import Worker
from pike.engine.executors.pool import WorkerPool

JUDGE_BYTES = 6 << 30
"""Device memory that each judge should find at least: its four processes hold 0.7 to 1 GiB each on
an H100 before any model lies there (docs/experiments/2026-11-23-h100-0-winners-of-h200s.md)."""


def judge_count(config: EngineConfig, facts: DeviceFacts | None = None) -> int:
    """How many judges work on this machine.

    Args:
        config: may name the number; otherwise there is one for each two cores, and no more than
            steps in flight.
        facts: the device, once it is known; then there is also one at most for each `JUDGE_BYTES`
            of its memory.
    """
    if config.judges:
        return config.judges
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    room = facts.memory_bytes // JUDGE_BYTES if facts is not None and facts.is_cuda else cores
    return max(1, min(cores // 2, config.concurrency, room))


class LocalExecutor(WorkerPool):
    """A pool of judge processes on this machine.

    Args:
        config: how many may work at once; fewer if it leaves that open and the device has memory
            for fewer.
        start: makes one worker, by default `pike.judge.client.JudgeClient`.
    """

    def __init__(self, config: EngineConfig, start: Callable[[], Worker] | None = None) -> None:
        super().__init__(start or start_judge, judge_count(config))
        self._config = config

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is; from then on no more judges work than find memory on it."""
        found = await super().facts(device)
        await self.shrink(judge_count(self._config, found))
        return found


def start_judge() -> Worker:
    """A judge in a process of its own."""
    from pike.judge.client import JudgeClient

    return JudgeClient()
