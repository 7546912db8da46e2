"""Judge processes on this machine, several at once.

Knows how many judges there are, which are idle, and that a dead one is replaced. Does not know how a judge works
(`evaluate`) nor what its verdict means. A judge is blocking, so each evaluation is driven from a thread; the
judges themselves take turns on the device (leases), so several of them only overlap building with timing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from pike.core.config import EngineConfig
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.evaluation import Evaluation, EvaluationRequest, Status
from pike.engine.executors.contract import OnStage

T = TypeVar("T")

ATTEMPTS = 2
"""How often one evaluation is tried when its judge dies; the second time may be the candidate's doing."""


class Judge(Protocol):
    """What is needed of `evaluate.client.JudgeClient`: one judge process, driven by blocking calls."""

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict; raises `InfraError` when the judge itself fails."""
        ...

    def facts(self, device: str) -> DeviceFacts:
        """What the device is."""
        ...

    def kill(self) -> None:
        """End the process at once; a blocked `evaluate` in another thread then raises `InfraError`."""
        ...

    def close(self) -> None:
        """End the process in good order."""
        ...


JUDGE_BYTES = 6 << 30
"""Device memory that each judge should find at least: its four processes hold 0.7 to 1 GiB each on an H100 before any
model lies there (docs/log.md, 2026-11-23)."""


def judge_count(config: EngineConfig, facts: DeviceFacts | None = None) -> int:
    """How many judges `config` asks for on this machine; where it leaves that open, as many as find memory on the
    device, once that is known."""
    if config.judges:
        return config.judges
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    room = facts.memory_bytes // JUDGE_BYTES if facts is not None and facts.is_cuda else cores
    return max(1, min(cores // 2, config.concurrency, room))


class _Seat:
    """Room for one judge, which is started in the seat's own thread when first needed.

    `kill` may come from the loop's thread at any moment, also while the judge is being started.
    """

    def __init__(self, start: Callable[[], Judge]) -> None:
        self._start = start
        self._judge: Judge | None = None
        self._killed = threading.Event()
        self._lock = threading.Lock()

    def work(self, job: Callable[[Judge], T]) -> T:
        with self._lock:
            if self._killed.is_set():
                raise InfraError("the judge was stopped")
            judge = self._judge = self._judge or self._start()
        if self._killed.is_set():
            judge.kill()
            raise InfraError("the judge was stopped")
        return job(judge)

    def kill(self) -> None:
        """End the judge; the seat is not used again."""
        self._killed.set()
        judge = self._judge
        if judge is not None:
            judge.kill()

    def close(self) -> None:
        if self._judge is not None and not self._killed.is_set():
            self._judge.close()


class LocalExecutor:
    """A pool of judge processes, which are started when first needed.

    Args:
        config: how many may work at once; fewer, where it leaves that open and the device that `facts` is asked for has
            memory for fewer.
        start: makes one judge, by default `evaluate.client.JudgeClient`.
    """

    def __init__(self, config: EngineConfig, start: Callable[[], Judge] | None = None) -> None:
        self._start = start or _start_judge
        self._config, judges = config, judge_count(config)
        self._judges = judges
        self._threads = ThreadPoolExecutor(judges, thread_name_prefix="pike-judge")
        self._idle = [_Seat(self._start) for _ in range(judges)]
        self._busy: set[_Seat] = set()
        self._free = asyncio.Semaphore(judges)
        self._closed = False

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict; a judge that dies is replaced and the evaluation tried once more."""
        report = _in_loop(on_stage)
        if on_stage is not None:
            on_stage("waiting")
        async with self._free:
            reason = ""
            for _ in range(ATTEMPTS):
                try:
                    return await self._with_judge(lambda judge: judge.evaluate(request, report))
                except InfraError as error:
                    reason = str(error)
                if self._closed:
                    break
        return Evaluation(Status.INFRA_ERROR, f"The judge failed {ATTEMPTS} times: {reason}")

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is, as a judge sees it (this process never touches the device)."""
        async with self._free:
            found = await self._with_judge(lambda judge: judge.facts(device))
        while self._judges > judge_count(self._config, found):
            self._judges -= 1  # before waiting: somebody else may ask meanwhile
            await self._free.acquire()
        return found

    async def aclose(self) -> None:
        """End every judge; one that is still working is killed."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(asyncio.to_thread(seat.kill) for seat in self._busy))
        await asyncio.gather(*(asyncio.to_thread(seat.close) for seat in self._idle))
        await asyncio.to_thread(self._threads.shutdown)

    async def _with_judge(self, job: Callable[[Judge], T]) -> T:
        seat = self._idle.pop()
        self._busy.add(seat)
        healthy = False
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._threads, seat.work, job)
            healthy = True
            return result
        except UserError:
            healthy = True
            raise
        finally:
            self._busy.discard(seat)
            self._idle.append(seat if healthy else _Seat(self._start))
            if not healthy:
                await asyncio.shield(asyncio.to_thread(seat.kill))


def _in_loop(on_stage: OnStage | None) -> OnStage | None:
    """`on_stage` made callable from a judge's thread."""
    if on_stage is None:
        return None
    loop = asyncio.get_running_loop()

    def report(stage: str) -> None:
        # The loop may be closing while a killed judge reports its last stage.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(on_stage, stage)

    return report


def _start_judge() -> Judge:
    from pike.evaluate.client import JudgeClient

    return JudgeClient()
