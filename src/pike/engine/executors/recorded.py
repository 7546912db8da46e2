"""Verdicts from an earlier run's journal, found by candidate source.

Knows which verdicts that run reached. Does not judge anything itself.
"""

from collections import defaultdict
from pathlib import Path

from pike import store
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Admitted, Compared, Judged, Proposed, RunStarted
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Status
from pike.engine.executors.contract import Executor


class RecordedExecutor(Executor):
    """Repeats the verdicts of the run in `folder`.

    Where that run judged a source more than once (a judge had failed), the verdicts come in the
    recorded order and the last one stays.

    Raises:
        UserError: `folder` holds no run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._device: DeviceFacts | None = None
        self._original_ms: float | None = None
        self._verdicts: dict[tuple[str, bool], list[Evaluation]] = defaultdict(list)
        self._read()

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The recorded verdict, or an `infra-error` that says the run never judged this source."""
        verdicts = self._verdicts.get((request.source, request.effort is Effort.SEARCH))
        if not verdicts:
            reason = f"The recorded run {self._folder} never judged this candidate ({request.effort.value})"
            return Evaluation(Status.INFRA_ERROR, reason)
        return verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]

    async def preflight(self, request: EvaluationRequest) -> float | None:
        """What the recorded run found."""
        return self._original_ms

    async def facts(self, device: str) -> DeviceFacts:
        """The device of the recorded run, whatever is asked for."""
        if self._device is None:
            raise UserError(f"The run {self._folder} has no beginning in its journal: choose another run to replay")
        return self._device

    async def aclose(self) -> None:
        """Nothing to stop."""

    def _read(self) -> None:
        sources: dict[str, str] = {}
        for entry in store.read(self._folder):
            match entry.event:
                case RunStarted(device=device, original_ms=original_ms):
                    self._device, self._original_ms = device, original_ms
                case Proposed(candidate=candidate):
                    sources[candidate.id] = candidate.source
                case Admitted(candidate=candidate, evaluation=evaluation):
                    sources[candidate.id] = candidate.source
                    self._verdicts[candidate.source, True].append(evaluation)
                case Compared(source=source, evaluation=evaluation):
                    self._verdicts[source, False].append(evaluation)
                case Judged(candidate_id=id_, evaluation=evaluation, effort=effort):
                    self._verdicts[sources[id_], effort is Effort.SEARCH].append(evaluation)
