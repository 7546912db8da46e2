"""The seams of evaluation: an executor gives verdicts, a pool keeps workers, a worker judges.

Knows what is asked of each. Does not know any of them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import (
    Effort,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    OnStage,
    Requests,
    Status,
)


class JudgedElsewhere(Exception):
    """The verdict comes later, from another machine; until then the candidate stays open."""


class Executor(Protocol):
    """Carries evaluations out; any number may be asked for at once.

    A failing candidate is an `Evaluation`, never an exception, and so is a worker that fails twice
    (`infra-error`). Cancelling `evaluate` stops the work and leaves the executor usable.
    """

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on one candidate.

        Raises:
            JudgedElsewhere: this executor judges nothing, and has no verdict for it yet.
        """

    async def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts on several candidates of one task on the same terms.

        An executor that times them does so in the same sessions; this one takes them in turn.
        """
        return [await self.evaluate(request, on_stage) for request in requests]

    async def preflight(self, request: EvaluationRequest) -> float | None:
        """Milliseconds of the original, once it ran on drawn inputs; None where nothing is run.

        The request's source does not count. What was prepared is there for the first candidate.

        Raises:
            UserError: no candidate of the task could be judged on these terms.
            InfraError: no worker could find out.
        """
        return None

    def prepare(self, request: EvaluationRequest) -> None:
        """Have idle workers prepare the request's task from now on, where that spares time later."""
        return

    async def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """What recipes say about the request's task, by its options, on a machine that judges.

        The JSON of `Explored.record`, or empty: this executor explores nothing.

        Raises:
            InfraError: no worker could find out.
        """
        return ""

    async def facts(self, device: str) -> DeviceFacts:
        """What the device (`auto`, `cpu`, `cuda` or `cuda:N`) is that candidates run on.

        Raises:
            UserError: there is no such device.
            InfraError: no worker could be started.
        """

    async def aclose(self) -> None:
        """Stop everything that was started; safe to call twice."""


class Worker(Protocol):
    """One judge, driven by blocking calls from one thread at a time;
    `pike.judge.client.JudgeClient` is one.

    Every call but `kill` and `close` raises `InfraError` if the worker itself fails, and
    `UserError` if the task or an option cannot be used.
    """

    def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts on one or several candidates of one task, timed in the same sessions if it can."""

    def preflight(self, request: EvaluationRequest) -> float | None:
        """Milliseconds of the original, once it was seen that a candidate could be judged."""
        return None

    def facts(self, device: str) -> DeviceFacts:
        """What the device is."""

    def release(self) -> None:
        """Hand all device memory back; what was prepared is prepared again when it is needed."""

    def kill(self) -> None:
        """End the worker at once, from any thread; a blocked call then raises `InfraError`."""

    def close(self) -> None:
        """End the worker in good order."""


class ExploringWorker(Protocol):
    """A worker on another machine, where recipes can look at a task too."""

    def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """What recipes say, as `Executor.explore`."""


async def evaluate_finally(
    executor: Executor, requests: Requests, on_stage: OnStage | None, terms: Callable[[], EvaluateOptions] | None = None
) -> list[Evaluation]:
    """The verdicts on finalists, in the same sessions, and once more where a time is not to be trusted.

    A machine that is busy for a moment looks like this too. `terms` gives those of such a second
    try, by default the first one's.
    """
    found = await executor.evaluate_together(requests, on_stage)
    for index, request in enumerate(requests):
        if found[index].status is Status.UNTRUSTED_TIMING and request.effort is not Effort.SEARCH:
            again = replace(request, options=terms()) if terms else request
            found[index] = await executor.evaluate(again, on_stage)
    return found
