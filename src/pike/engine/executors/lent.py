"""An executor that outlives the runs it is lent to.

Knows its owner and the terms on which it is lent. Does not know how a verdict is reached.
"""

from dataclasses import replace

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Requests
from pike.engine.executors.contract import Executor


class LentExecutor:
    """Passes everything on but the end.

    Args:
        owner: the executor that judges; only its owner closes it.
        known: what the device is, if that need not be asked again before something is judged
            (asking starts a judge).
        profile: have valid candidates of the search profiled whatever the run's configuration says.
    """

    def __init__(self, owner: Executor, known: DeviceFacts | None = None, profile: bool = False) -> None:
        self._owner = owner
        self._known = known
        self._is_compared = known is None
        self._profile = profile

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The owner's verdict.

        Raises:
            UserError: the owner judges on another device than the one that is known.
        """
        await self._compare(request)
        if self._profile and request.effort is Effort.SEARCH:
            request = replace(request, profile=True)
        return await self._owner.evaluate(request, on_stage)

    async def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The owner's verdicts.

        Raises:
            UserError: as for `evaluate`.
        """
        await self._compare(requests[0])
        return await self._owner.evaluate_together(requests, on_stage)

    async def preflight(self, request: EvaluationRequest) -> float | None:
        """The owner's answer."""
        return await self._owner.preflight(request)

    def prepare(self, request: EvaluationRequest) -> None:
        """Nothing: the owner's workers have other runs to serve."""

    async def explore(self, request: EvaluationRequest, device: DeviceFacts) -> str:
        """The owner's answer."""
        return await self._owner.explore(request, device)

    async def facts(self, device: str) -> DeviceFacts:
        """What the owner says; asked once."""
        if self._known is None:
            self._known = await self._owner.facts(device)
        return self._known

    async def aclose(self) -> None:
        """Nothing: the owner goes on."""

    async def _compare(self, request: EvaluationRequest) -> None:
        if self._known is not None and not self._is_compared:
            self._known.require_same(await self._owner.facts(request.options.device))
            self._is_compared = True
