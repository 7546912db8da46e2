"""A pool of workers: each evaluation goes to one that is idle, and a lost worker's work to another.

Knows which workers are idle, what each prepared last, whose turn it is, and the rule for device
memory. Does not know what a worker is. Each blocks, so a thread drives it; they take turns on the
device (`judge.timing`).
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import chain, cycle
from typing import TypeVar, cast

from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.events import WORKER
from pike.core.task import Task
from pike.core.verdict.evaluation import DEVICE_MEMORY, Evaluation, EvaluationRequest, OnStage, Requests, Status
from pike.engine.executors.contract import ExploringWorker, Worker

T = TypeVar("T")
_Start = Callable[[], Worker]
_Starts = Sequence[_Start]
_Terms = tuple[Task, tuple[object, ...]]

MOST_OVERTAKEN = 4
"""For each worker, how many evaluations may go before the oldest, whose task no idle one has prepared."""
ATTEMPTS = 2
"""How often one evaluation is tried when its worker dies; the second time may be the candidate's
doing."""


class Slot:
    """Room for one worker, which is started in a thread of the pool when it is first needed.

    `kill` may come from the loop's thread at any moment, also while the worker is being started.
    """

    def __init__(self, start: _Start, name: str) -> None:
        self.prepared: _Terms | None = None
        self.start, self.name, self.jobs = start, name, 0
        self._worker: Worker | None = None
        self._killed = threading.Event()
        self._lock = threading.Lock()

    def work(self, job: Callable[[Worker], T]) -> T:
        """What the worker, started if it has to be, says to a job."""
        with self._lock:
            if self._killed.is_set():
                raise InfraError("the judge was stopped")
            worker = self._worker = self._worker or self.start()
        if self._killed.is_set():
            worker.kill()
            raise InfraError("the judge was stopped")
        return job(worker)

    @property
    def runs(self) -> bool:
        """Whether its worker was started."""
        return self._worker is not None

    def release(self) -> None:
        """Have the worker hand device memory back; one that cannot is killed."""
        if self._worker is None or self._killed.is_set():
            return
        self.prepared = None
        try:
            self._worker.release()
        except InfraError:
            self._worker.kill()

    def kill(self) -> None:
        """End the worker; the slot is not used again."""
        self._killed.set()
        worker = self._worker
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End the worker in good order."""
        if self._worker is not None and not self._killed.is_set():
            self._worker.close()


_Wanted = Callable[[Slot], bool]


class _Waiting:
    """Someone who waits for places."""

    def __init__(self, places: int, terms: _Terms | None) -> None:
        self.places, self.terms, self.overtaken = places, terms, 0
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Queue:
    """Hands out places in turn, but first to those whose task an idle worker has prepared already.

    To prepare a task takes a judge as long as a candidate or two, on the device too. Who has waited
    longest is overtaken at most `MOST_OVERTAKEN` times for each place that there is.

    Args:
        size: how many places there are.
        prepared: the terms that idle workers prepared.
    """

    def __init__(self, size: int, prepared: Callable[[], list[_Terms | None]]) -> None:
        self.size = self._free = size
        self._prepared, self._coming = prepared, Counter[_Terms | None]()
        self._waiting: list[_Waiting] = []

    async def take(self, places: int, terms: _Terms | None = None) -> None:
        """Wait for so many places at once; `give_back` returns them."""
        one = _Waiting(places, terms)
        self._waiting.append(one)
        self._serve()
        try:
            await one.turn
        except asyncio.CancelledError:
            if one in self._waiting:
                self._waiting.remove(one)
                self._serve()
            else:
                self._coming[terms] -= 1
                self.give_back(places)
            raise
        self._coming[terms] -= 1

    def give_back(self, places: int) -> None:
        """Return what was taken."""
        self._free += places
        self._serve()

    def _serve(self) -> None:
        while self._free and (one := self._next()) is not None and one.places <= self._free:
            oldest = next(other for other in self._waiting if not other.turn.done())
            oldest.overtaken += oldest is not one
            self._waiting.remove(one)
            self._free -= one.places
            self._coming[one.terms] += 1
            one.turn.set_result(None)

    def _next(self) -> _Waiting | None:
        waiting = [one for one in self._waiting if not one.turn.done()]  # one that is cancelled is still there
        if not waiting or waiting[0].overtaken >= MOST_OVERTAKEN * self.size:
            return waiting[0] if waiting else None
        ready = Counter(self._prepared()) - self._coming
        fits = (one for one in waiting if one.terms and ready[one.terms] and one.places <= self._free)
        return next(fits, waiting[0])


class Gate:
    """Lets any number in together, or one alone; later arrivals queue behind a wish to be alone."""

    def __init__(self) -> None:
        self._inside = 0
        self._closed = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Be inside together with others."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            await asyncio.shield(self._tell())

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be inside alone: new arrivals wait, then those inside leave."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._closed)
            self._closed = True
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._inside)
            yield
        finally:
            self._closed = False
            await asyncio.shield(self._tell())

    async def _tell(self) -> None:
        """Wake everybody that waits; shielded, because a cancelled task gets here too."""
        async with self._changed:
            self._changed.notify_all()


class WorkerPool:
    """An executor over several workers, which are started when they are first needed.

    An evaluation that finds too little device memory is tried once more, alone. It waits until no
    other evaluation is in flight, and later ones queue behind it. All idle workers release their
    memory first. A second refusal is the verdict.

    Candidates that are judged together stand on the device all at once, each in a process of its own
    like the original, so a group takes the places of as many workers as hold so many processes.

    Args:
        starts: makes one worker, on each of several devices of one model.
        size: how many may work at once, shared out evenly.
        places: the GPU of each start, empty where it is not known.
        idle_seconds: after how much time without work a worker ends; it is started again when it
            is needed. 0 for never.
        apart: the workers are on several devices and nobody says which, so a group takes one place.
    """

    def __init__(
        self, starts: _Starts, size: int, places: Sequence[str] = (), idle_seconds: float = 0, apart: bool = False
    ) -> None:
        self._starts, self._idle_seconds, self._apart = starts, idle_seconds, apart
        self.size = size = max(size, len(starts))
        """How many workers may work at once."""
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="pike-worker")
        kinds = cycle(zip(starts, [f" on GPU {one}" * bool(one) for one in places or [""] * len(starts)], strict=True))
        self._idle = [
            Slot(start, f"{WORKER}{number}{on}") for number, (start, on) in zip(range(1, size + 1), kinds, strict=False)
        ]
        self._busy: set[Slot] = set()
        self._queue = Queue(size, lambda: [slot.prepared for slot in self._idle])
        self._gate = Gate()
        self._closed = False
        self._preflights: dict[_Terms, float | None] = {}
        self._facts: dict[str, DeviceFacts] = {}

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict; a worker that dies is replaced and the evaluation tried once more."""
        async with self._among_others(terms_of(request), on_stage=on_stage):
            (found,) = await self._judged([request], on_stage)
        if DEVICE_MEMORY not in found.labels:
            return found
        async with self._alone(on_stage):
            (found,) = await self._judged([replace(request, alone=True)], on_stage)
            return found

    async def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts of one worker; what finds too little device memory is evaluated again."""
        if len(requests) == 1:
            return [await self.evaluate(requests[0], on_stage)]
        async with self._among_others(terms_of(requests[0]), len(requests), on_stage):
            found = await self._judged(requests, on_stage)
        return [
            await self.evaluate(request, on_stage) if DEVICE_MEMORY in one.labels else one
            for request, one in zip(requests, found, strict=True)
        ]

    async def preflight(self, request: EvaluationRequest) -> float | None:
        """A worker's answer, the same one for a task and terms that were looked at before.

        A worker that fails, perhaps for lack of memory, is replaced and tried again alone.
        """
        terms = terms_of(request)
        if terms not in self._preflights:
            try:
                async with self._among_others(terms):
                    found = await self._with_worker(lambda worker: worker.preflight(request), terms)
            except InfraError:
                if self._closed:
                    raise
                async with self._alone():
                    alone = replace(request, alone=True)
                    found = await self._with_worker(lambda worker: worker.preflight(alone), terms)
            self._preflights[terms] = found
        return self._preflights[terms]

    def prepare(self, request: EvaluationRequest) -> None:
        """Nothing: workers of other machines are started when there is work."""

    async def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """The answer of a worker, which must be one on another machine."""
        async with self._among_others():
            return await self._with_worker(lambda worker: cast(ExploringWorker, worker).explore(request, device))

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is, as workers see it; this process never touches the device.

        Raises:
            UserError: there is no such device, or the devices are of unlike models.
            InfraError: no worker could be started.
        """
        if device not in self._facts:
            first, *others = await asyncio.gather(*(self._facts_of(device, start) for start in self._starts))
            for other in others:
                if replace(other, versions=first.versions) != first:
                    raise UserError(
                        f"engine.devices: {first.name} and {other.name} are unlike, and times on them are not "
                        "comparable; name devices of one model"
                    )
            self._facts[device] = first
        return self._facts[device]

    async def _facts_of(self, device: str, start: _Start) -> DeviceFacts:
        async with self._among_others():
            return await self._with_worker(lambda worker: worker.facts(device), None, lambda slot: slot.start is start)

    async def aclose(self) -> None:
        """End every worker; one that is still working is killed."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(asyncio.to_thread(slot.kill) for slot in self._busy))
        await asyncio.gather(*(asyncio.to_thread(slot.close) for slot in self._idle))
        await asyncio.to_thread(self._threads.shutdown)

    async def shrink(self, size: int) -> None:
        """Let no more than `size` workers work at once from now on."""
        while self.size > size:
            self.size -= 1  # before waiting: another task may ask meanwhile
            await self._queue.take(1)
            self._queue.size -= 1
            slot = max(self._idle, key=lambda slot: (self._crowd(slot), slot.prepared is None, not slot.runs))
            self._idle.remove(slot)
            await asyncio.to_thread(slot.close)

    def _crowd(self, slot: Slot) -> int:
        """How many slots its device has."""
        return sum(one.start is slot.start for one in (*self._idle, *self._busy))

    @asynccontextmanager
    async def _among_others(
        self, terms: _Terms | None = None, candidates: int = 1, on_stage: OnStage | None = None
    ) -> AsyncIterator[None]:
        if on_stage is not None:
            on_stage("waiting")
        # One worker has a candidate and an original.
        places = 1 if self._apart else min(self.size, (candidates + 2) // 2)
        await self._queue.take(places, terms)
        try:
            async with self._gate.shared():
                yield
        finally:
            self._queue.give_back(places)

    @asynccontextmanager
    async def _alone(self, on_stage: OnStage | None = None) -> AsyncIterator[None]:
        """While it lasts, no other evaluation is in flight and idle workers hold no device memory."""
        if on_stage is not None:
            on_stage("waiting")
        async with self._gate.alone():
            await asyncio.gather(*(asyncio.to_thread(slot.release) for slot in self._idle))
            yield

    async def _judged(self, requests: Requests, on_stage: OnStage | None) -> list[Evaluation]:
        told = [on_stage] if on_stage else []
        report = _in_loop(told)

        def work(worker: Worker) -> list[Evaluation]:
            return worker.evaluate_together(requests, report)

        reason, wanted = "", None
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await self._with_worker(work, terms_of(requests[0]), wanted, on_stage)
                except InfraError as error:
                    reason, wanted = str(error), _is_new
                if self._closed:
                    break
        finally:
            told.clear()
        return [Evaluation(Status.INFRA_ERROR, f"The judge failed {ATTEMPTS} times: {reason}")] * len(requests)

    async def _with_worker(
        self,
        job: Callable[[Worker], T],
        prepared: _Terms | None = None,
        wanted: _Wanted | None = None,
        on_stage: OnStage | None = None,
    ) -> T:
        slot, loop = self._take(prepared, wanted), asyncio.get_running_loop()
        healthy = False
        try:
            if on_stage is not None:
                on_stage(slot.name)
            result = await loop.run_in_executor(self._threads, slot.work, job)
            healthy = True
            return result
        except UserError:
            healthy, slot.prepared = True, None
            raise
        finally:
            self._busy.discard(slot)
            try:
                if not healthy:
                    await asyncio.shield(asyncio.to_thread(slot.kill))
            finally:
                self._idle.append(slot if healthy else Slot(slot.start, slot.name))
            if self._idle_seconds:
                loop.call_later(self._idle_seconds, self._let_go, slot, slot.jobs)

    def _let_go(self, slot: Slot, jobs: int) -> None:
        """End the worker of a slot that had nothing to do since."""
        if slot in self._idle and slot.jobs == jobs and not self._closed:
            self._idle[self._idle.index(slot)] = Slot(slot.start, slot.name)
            self._threads.submit(slot.close)

    def _take(self, prepared: _Terms | None, wanted: _Wanted | None) -> Slot:
        """An idle slot: one that is wanted, else one whose worker prepared this last, else one that
        prepared nothing but runs, else the one idle the longest."""
        asked = filter(wanted, self._idle) if wanted else ()
        ready = (slot for slot in self._idle if prepared is None or slot.prepared == prepared)
        fresh = (slot for slot in self._idle if slot.runs and slot.prepared is None)
        slot = next(chain(asked, ready, fresh), self._idle[0])
        self._idle.remove(slot)
        self._busy.add(slot)
        slot.jobs += 1
        slot.prepared = prepared or slot.prepared
        return slot


def terms_of(request: EvaluationRequest) -> _Terms:
    """What a worker prepares for a request; it serves every request with the same."""
    return request.task, request.options.preparation


def _is_new(slot: Slot) -> bool:
    """Whether its worker comes yet: the machine of a lost one may have taken others along."""
    return not slot.runs


def _in_loop(told: Sequence[OnStage]) -> OnStage:
    """Those who are told, callable from a worker's thread; what comes when they are gone is dropped."""
    loop = asyncio.get_running_loop()

    def tell(stage: str) -> None:
        for on_stage in told:
            on_stage(stage)

    def report(stage: str) -> None:
        # The loop may be closing while a killed worker reports its last stage.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, stage)

    return report
