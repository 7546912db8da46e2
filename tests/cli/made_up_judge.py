"""A worker for the command line's tests: it judges at once, and nothing is compiled."""

from __future__ import annotations

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, Status
from pike.engine.executors import Worker
from pike.engine.executors.instant import instant_verdict


class Judge(Worker):
    asked = 0

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        Judge.asked += 1
        if "self.compile" in request.source:
            return Evaluation(Status.RUNTIME_ERROR, "[bold]no compiler[/bold]")
        return instant_verdict(request)

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "made up")

    def release(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass
