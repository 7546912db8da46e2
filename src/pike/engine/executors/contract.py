"""The seam that every executor fits.

Knows what the run loop asks of an executor. Does not know any executor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pike.core.device import DeviceFacts
from pike.core.evaluation import Evaluation, EvaluationRequest

OnStage = Callable[[str], None]
"""Told what is being done to a candidate (`waiting`, then stage names); called in the event loop's thread."""


class Executor(Protocol):
    """Carries evaluations out; any number may be asked for at once.

    A failing candidate is an `Evaluation`, never an exception, and so is a judge that fails twice
    (`infra-error`). Cancelling `evaluate` stops the work and leaves the executor usable.
    """

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on one candidate."""
        ...

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is that candidates run on.

        Args:
            device: `auto`, `cpu`, `cuda` or `cuda:N`.

        Raises:
            UserError: there is no such device.
            InfraError: no judge could be started.
        """
        ...

    async def aclose(self) -> None:
        """Stop everything that was started; safe to call twice."""
        ...
