"""Judges what is queued, as many submissions at once as the executor bears.

Knows the order of a service's work: a verdict is stored before anyone is told, and what a process
did not end, the next one judges again. Does not know HTTP, owners or how a verdict is reached.
"""

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, StoreError, UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import Status
from pike.engine.executors.contract import Executor
from pike.engine.executors.parcel import Parcel, unpack
from pike.engine.executors.pool import WorkerPool
from pike.engine.executors.service.wire import (
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    Asks,
    Problem,
    ServiceInfo,
    Submission,
    SubmissionState,
)
from pike.engine.executors.versions import versions
from pike.engine.service.limits import Quota
from pike.engine.service.queue import SubmissionQueue
from pike.store.whole import write_text

_LOG = logging.getLogger(__name__)
PARCELS, TASKS = "parcels", "tasks"
_KEPT_TASKS = 64
_UNSETTLED = (Status.INFRA_ERROR, Status.UNTRUSTED_TIMING)
"""Verdicts on the machine's moment; the same submission is judged again, and so is what recipes say."""


@dataclass(frozen=True, slots=True)
class DeskTerms:
    """What the owner of a service decides.

    Attributes:
        judges: how many submissions are judged at once where the executor does not say.
        sandbox: the sandbox of every candidate, whatever a submission asks for.
        most_queued: submissions that may wait or be judged at once.
    """

    judges: int = 1
    sandbox: str = "auto"
    most_queued: int = 10_000


class _Work:
    """A submission under way: what was told of it, and who listens."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.changed = asyncio.Event()
        self.job: asyncio.Task[SubmissionState] | None = None

    def tell(self, stage: str = "") -> None:
        if stage:
            self.stages.append(stage)
        self.changed.set()
        self.changed = asyncio.Event()


class Desk:
    """Takes submissions, has them judged and tells what became of them; all in one event loop.

    Args:
        folder: where parcels and tasks are kept.
        queue: what waits; the caller closes it.
        executor: what judges; the caller closes it.
        terms: what the owner decides.
        device: what the executor judges on.
    """

    def __init__(
        self, folder: Path, queue: SubmissionQueue, executor: Executor, terms: DeskTerms, device: DeviceFacts
    ) -> None:
        self._folder, self._queue, self._executor, self.facts = folder, queue, executor, executor.facts
        self.terms, self.device, self._versions = terms, device, versions()
        self._judges = executor.size if isinstance(executor, WorkerPool) else terms.judges
        self._works: dict[str, _Work] = {}
        self._task = lru_cache(_KEPT_TASKS)(self._read_task)
        self._next: asyncio.Queue[str] = asyncio.Queue()
        for id_ in queue.open_ids():
            asked = queue.asked(id_)
            if asked is not None and self.id_of(asked) == id_:
                self._next.put_nowait(id_)
            else:
                queue.fail(id_, Problem("unlike", "The service has another device or versions now: submit again"))

    @property
    def info(self) -> ServiceInfo:
        """What the service is."""
        terms = self.terms
        return ServiceInfo(
            self._versions, self.device, self._judges, terms.sandbox, self._queue.waiting, terms.most_queued
        )

    @property
    def is_full(self) -> bool:
        """Whether nothing new is taken for now."""
        return self._queue.waiting >= self.terms.most_queued

    def has_parcel(self, digest: str) -> bool:
        """Whether a task was brought."""
        return (self._folder / PARCELS / digest).exists()

    def bring(self, parcel: Parcel) -> None:
        """Keep a task; the judge runs its code outside of every sandbox.

        Raises:
            UserError: the parcel was changed on its way, or cannot be unpacked.
            StoreError: the disk refuses.
        """
        try:
            task = unpack(parcel, self._folder / TASKS)
        except ValueError as error:
            raise UserError(f"The parcel cannot be unpacked: {error}") from error
        except OSError as error:
            raise StoreError(f"The parcel cannot be kept: {error.strerror}") from error
        path = self._folder / PARCELS / parcel.digest
        write_text(path, json.dumps(encode(task)))

    def is_new(self, submission: Submission) -> bool:
        """Whether it would have to be judged: neither settled nor under way."""
        id_ = self.id_of(submission)
        return not self._queue.settled(id_) and self._queue.asked(id_) is None

    def wait_seconds(self, owner: str, quota: Quota) -> float:
        """How long an owner has to wait before something new is taken; 0 for not at all."""
        return self._queue.wait_seconds(owner, quota)

    def submit(self, submission: Submission, owner: str) -> tuple[SubmissionState, bool]:
        """What is known of a submission now, and whether it has to be judged."""
        id_ = self.id_of(submission)
        new = self._queue.add(id_, submission, owner)
        if new:
            self._next.put_nowait(id_)
        told = self.told(id_)
        assert told is not None
        return told, new

    def id_of(self, submission: Submission) -> str:
        """What names a submission here."""
        return submission.digest(f"{self.device.name} {self.terms.sandbox}")

    def told(self, id_: str) -> SubmissionState | None:
        """What is known of a submission, None for an unknown one."""
        found, work = self._queue.told(id_), self._works.get(id_)
        if found is None or work is None or work.job is None or found.state != QUEUED:
            return found
        return replace(found, state=RUNNING, stages=tuple(work.stages))

    async def news(self, id_: str, seen: int, seconds: float) -> SubmissionState | None:
        """What is known once it has ended or has more stages than `seen`, or after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (told := self.told(id_)) is not None and not told.ended and len(told.stages) <= seen:
                    await self._works.setdefault(id_, _Work()).changed.wait()
        return self.told(id_)

    def cancel(self, id_: str, owner: str | None) -> None:
        """Give up an owner's claim (None: everybody's); what nobody wants any more is stopped."""
        if self._queue.cancel(id_, owner) and (work := self._works.get(id_)):
            if work.job is not None:
                work.job.cancel()
            else:
                self._over(id_, work)

    async def judge(self) -> None:
        """Judge what is queued and what comes, until it is cancelled.

        Raises:
            StoreError: a verdict cannot be stored; the next process judges again what has none.
        """
        judges = [asyncio.create_task(self._judge_on()) for _ in range(max(1, self._judges))]
        try:
            await asyncio.gather(*judges)
        finally:
            for one in judges:
                one.cancel()
            await asyncio.gather(*judges, return_exceptions=True)

    async def _judge_on(self) -> None:
        while True:
            id_ = await self._next.get()
            work = self._works.setdefault(id_, _Work())
            if work.job is not None and work.job.cancelling():  # it was submitted again while it is being stopped
                await asyncio.wait({work.job})
                await asyncio.sleep(0)  # the other task, which waited first, clears it away
                work = self._works.setdefault(id_, _Work())
            if work.job is not None:
                continue
            if (submission := self._queue.asked(id_)) is not None:
                await self._see_through(id_, submission, work)
            self._over(id_, work)

    async def _see_through(self, id_: str, submission: Submission, work: _Work) -> None:
        job = work.job = asyncio.create_task(self._judged(id_, submission, work))
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:  # the service ends; the next process judges it again
            job.cancel()
            await asyncio.wait({job})
            raise
        if job.cancelled():
            return
        if (bug := job.exception()) is not None:  # of ours: one submission must not end all others
            _LOG.error("submission %s", id_, exc_info=bug)
            self._queue.fail(id_, Problem("bug", f"The service failed: {type(bug).__name__}; its log says more"))
        else:
            self._queue.end(job.result(), settled=_is_settled(job.result()))

    def _over(self, id_: str, work: _Work) -> None:
        """Wake those who listen; a later submission of the same begins anew."""
        if self._works.get(id_) is work:
            del self._works[id_]
        work.tell()

    async def _judged(self, id_: str, submission: Submission, work: _Work) -> SubmissionState:
        try:
            task = self._task(submission.parcel)
            requests = [one.request(task) for one in submission.candidates]
            requests = [replace(one, options=replace(one.options, sandbox=self.terms.sandbox)) for one in requests]
            if submission.asks is Asks.PREFLIGHT:
                return SubmissionState(id_, DONE, original_ms=await self._executor.preflight(requests[0]))
            if submission.asks is Asks.RECIPES:
                return SubmissionState(id_, DONE, explored=await self._executor.explore(requests[0], self.device))
            found = await self._executor.evaluate_together(requests, work.tell)
            return SubmissionState(id_, DONE, evaluations=tuple(found))
        except UserError as error:
            return SubmissionState(id_, FAILED, error=Problem("unusable", str(error)))
        except InfraError as error:
            return SubmissionState(id_, FAILED, error=Problem("judge-failed", str(error)))

    def _read_task(self, digest: str) -> Task:
        """A task that was brought, with its files as they lie here.

        Raises:
            UserError: it is gone.
        """
        try:
            return decode(Task, json.loads((self._folder / PARCELS / digest).read_text()))
        except (OSError, ValueError) as error:
            raise UserError("The task of this submission is gone: bring its parcel again") from error


def _is_settled(told: SubmissionState) -> bool:
    return told.state == DONE and not told.explored and not any(one.status in _UNSETTLED for one in told.evaluations)
