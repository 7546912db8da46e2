"""Workers of an evaluation service: each carries one submission at a time there and brings verdicts back.

A submission is named by its content, so after any failure it is simply submitted again: a service
that was started anew, or one that lost the connection, judges nothing twice. Does not know when
work goes to another worker (`pool`).
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage, Requests
from pike.engine.executors.contract import Worker
from pike.engine.executors.parcel import Parcel, pack
from pike.engine.executors.service.connection import Busy, Connection, Refusal
from pike.engine.executors.service.wire import (
    CANCELLED,
    DONE,
    Asks,
    ServiceInfo,
    Submission,
    SubmissionState,
    submission_of,
)
from pike.engine.executors.versions import unlike, versions

T = TypeVar("T")
GONE_SECONDS = 120.0
"""How long a service may be out of reach before the evaluation goes to another worker."""
_PAUSE_SECONDS = 0.5
UNKNOWN_PARCEL = "unknown-parcel"


class ServiceWorkers:
    """Starts workers of one service.

    Attributes:
        size: how many candidates the service judges at once.

    Raises:
        UserError: nothing answers there, it refuses the token, or it has other versions.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self._connection = Connection(address, token)
        try:
            self._info = info_of(self._connection)
        except InfraError as error:
            raise UserError(f"{error}; start it with pike serve --evaluate") from error
        self.size = self._info.judges

    def start(self) -> Worker:
        """A worker, which needs nothing but the address."""
        return ServiceWorker(self._connection, self._info.device.name)


def info_of(connection: Connection) -> ServiceInfo:
    """What the service is.

    Raises:
        UserError: it refuses the token, or its versions are not those of this machine.
        InfraError: nothing answers.
    """
    info = decode(ServiceInfo, connection.call("GET", "/v1/service"))
    if differing := unlike(info.versions, versions()):
        raise UserError(
            f"The evaluation service at {connection.address} has {differing}; install the same here and there"
        )
    return info


def submitted(connection: Connection, submission: Submission, parcel: Callable[[], Parcel]) -> SubmissionState:
    """Submit, and bring the task first if the service does not know it; raises as `Connection.call`."""
    try:
        return decode(SubmissionState, connection.call("POST", "/v1/submissions", encode(submission)))
    except Refusal as refusal:
        if refusal.code != UNKNOWN_PARCEL:
            raise
    connection.call("PUT", f"/v1/parcels/{submission.parcel}", encode(parcel()))
    return decode(SubmissionState, connection.call("POST", "/v1/submissions", encode(submission)))


def failure_of(told: SubmissionState) -> UserError | InfraError:
    """Why there is no verdict."""
    if told.error is None:
        return InfraError("The submission was cancelled")
    return (UserError if told.error.code == "unusable" else InfraError)(told.error.message)


class ServiceWorker(Worker):
    """One place at the service, driven by blocking calls from one thread at a time."""

    def __init__(self, connection: Connection, device: str) -> None:
        self._connection, self._device = connection, device
        self._stopped = threading.Event()
        self._submitted = ""
        self._parcels: dict[Task, str] = {}

    def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts on several candidates of one task, which the service judges together."""
        return list(self._ended(requests, on_stage).evaluations)

    def preflight(self, request: EvaluationRequest) -> float | None:
        """Milliseconds of the original, once it was seen that a candidate could be judged."""
        return self._ended([request], None, asks=Asks.PREFLIGHT).original_ms

    def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """What recipes say about the task, on the service's machine."""
        return self._ended([request], None, asks=Asks.RECIPES).explored

    def facts(self, device: str) -> DeviceFacts:
        """What the device is, on the service's machine."""
        return decode(DeviceFacts, self._repeated(lambda: self._connection.call("GET", f"/v1/devices/{device}")))

    def release(self) -> None:
        """Nothing: the service shares its device out itself."""

    def kill(self) -> None:
        """Have the service stop what was submitted, and let the blocked call end."""
        self._stopped.set()
        if self._submitted:
            with contextlib.suppress(InfraError, UserError):
                self._connection.call("DELETE", f"/v1/submissions/{self._submitted}")

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _ended(self, requests: Requests, on_stage: OnStage | None, *, asks: Asks = Asks.VERDICTS) -> SubmissionState:
        task = requests[0].task
        if task not in self._parcels:
            self._parcels = {task: pack(task).digest}
        submission = submission_of(self._parcels[task], requests, asks=asks, device=self._device)

        def carried() -> SubmissionState:
            return self._followed(submission, task, on_stage)

        while (told := self._repeated(carried)).state == CANCELLED:
            continue  # by another client that had submitted the same
        if told.state != DONE:
            raise failure_of(told)
        return told

    def _followed(self, submission: Submission, task: Task, on_stage: OnStage | None) -> SubmissionState:
        told = submitted(self._connection, submission, lambda: pack(task))
        self._submitted, seen = told.id, 0
        while not told.ended and not self._stopped.is_set():
            path = f"/v1/submissions/{told.id}?wait=30&seen={seen}"
            told = decode(SubmissionState, self._connection.call("GET", path))
            if on_stage is not None:
                for stage in told.stages[seen:]:
                    on_stage(stage)
            seen = len(told.stages)
        if self._stopped.is_set():
            self.kill()  # once more: it may have been submitted after the first time
            raise InfraError("the worker was stopped")
        self._submitted = ""
        return told

    def _repeated(self, ask: Callable[[], T]) -> T:
        """What is answered at last; a service that is busy is waited for, one that is gone for a while.

        Raises:
            InfraError: it is gone, or this worker was stopped.
            UserError: it refuses.
        """
        gone_since: float | None = None
        while not self._stopped.is_set():
            try:
                return ask()
            except Busy as busy:
                gone_since, pause = None, busy.seconds
            except Refusal as refusal:
                if refusal.code != "unknown-submission":
                    raise
                pause = _PAUSE_SECONDS  # it forgot what it had accepted
            except InfraError:
                gone_since = gone_since or time.monotonic()
                if time.monotonic() - gone_since > GONE_SECONDS:
                    raise
                pause = _PAUSE_SECONDS
            self._stopped.wait(pause)
        raise InfraError("the worker was stopped")
