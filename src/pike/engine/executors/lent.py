"""An executor that outlives the run it is lent to, for runs that come in many short pieces.

Knows whose it is and on what terms it is lent. Does not know how a verdict is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest
from pike.engine.executors.contract import Executor, OnStage


@dataclass(frozen=True, slots=True)
class LentExecutor:
    """Passes everything on but the end.

    Attributes:
        owner: who judges; only its owner closes it.
        known: what the device is, where that need not be asked again (asking starts a judge).
        profile: have valid candidates of the search profiled whatever the run's configuration says.
    """

    owner: Executor
    known: DeviceFacts | None = None
    profile: bool = False

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The owner's verdict."""
        if self.profile and request.effort is Effort.SEARCH:
            request = replace(request, profile=True)
        return await self.owner.evaluate(request, on_stage)

    async def facts(self, device: str) -> DeviceFacts:
        """What is known, else what the owner says."""
        return self.known or await self.owner.facts(device)

    async def aclose(self) -> None:
        """Nothing: the owner goes on."""
