"""A worker for the command line's tests: it judges at once, and nothing is compiled.

As a script it is the command line with such a judge. It takes `SECONDS` for each stage, and times a
candidate with the text `HELD` when there is a file `GO`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pike.cli import main
from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage, Requests, Status
from pike.engine.executors import gpus
from pike.engine.executors.contract import Worker
from pike.engine.executors.instant import instant_verdict

SECONDS, HELD, GO = "MADE_UP_SECONDS", "MADE_UP_HELD", "go"
TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(2)]


def get_init_inputs():
    return []
"""


class Judge(Worker):
    asked = 0

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        Judge.asked += 1
        for stage in ("build", "correct", "time") if on_stage else ():
            on_stage(stage)
            time.sleep(float(os.environ.get(SECONDS, "0")))
        while os.environ.get(HELD, " no such text ") in request.source and not Path(GO).exists():
            time.sleep(0.02)
        if "self.compile" in request.source:
            return Evaluation(Status.RUNTIME_ERROR, "[bold]no compiler[/bold]")
        return instant_verdict(request)

    def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        return [self.evaluate(request, on_stage) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "made up")

    def release(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass


if __name__ == "__main__":
    gpus.start_judge = lambda *_: Judge()
    sys.exit(main.run(sys.argv[1:]))
