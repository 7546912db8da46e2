"""Suites on workers that answer at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine_material import ExplorerHere

from pike.core.comparison.results import Result
from pike.core.device import DeviceFacts
from pike.core.settings.config import EngineConfig, RunConfig
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Precision
from pike.engine.executors.contract import Worker
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.pool import WorkerPool
from pike.engine.schedule.scheduler import CampaignWiring
from pike.engine.schedule.suite import SuitePlan, Survey, run_suite

FACTS = DeviceFacts("cpu", "made up", versions=(("torch", "1"),))
H100 = DeviceFacts(
    "cuda:0", "NVIDIA H100 80GB HBM3", capability="9.0", compilers=("g++", "triton"), versions=(("torch", "2.11"),)
)
CONFIG = RunConfig(evaluate=EvaluateOptions(device="cpu"), engine=EngineConfig(concurrency=2))
SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(4, 4)]
def get_init_inputs():
    return []
# pike-instant: valid 5ms
"""
Answer = Callable[[EvaluationRequest], Evaluation]


def valid(request: EvaluationRequest) -> Evaluation:
    """Twice as fast as the original, whatever the candidate is."""
    return instant_verdict(replace(request, source=request.source + "# pike-instant: valid 5ms\n"))


@dataclass
class Workers:
    """Makes workers, and remembers what all of them were asked."""

    answer: Answer = instant_verdict
    facts: DeviceFacts = FACTS
    asked: list[EvaluationRequest] = field(default_factory=list)
    killed: list[Any] = field(default_factory=list)
    on_kill: Callable[[], None] = lambda: None

    def __call__(self) -> Fake:
        return Fake(self)


class Fake(Worker):
    """One worker."""

    def __init__(self, all: Workers) -> None:
        self.all = all

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        self.all.asked.append(request)
        return self.all.answer(request)

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: object = None) -> list[Evaluation]:
        return [self.evaluate(request, on_stage) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return self.all.facts

    def release(self) -> None:
        pass

    def kill(self) -> None:
        self.all.killed.append(self)
        self.all.on_kill()

    def close(self) -> None:
        pass


def folder_of_tasks(folder: Path, numbers: tuple[int, ...] = (1, 2, 10)) -> str:
    """A suite `made` of small tasks."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    for number in numbers:
        (made / f"{number}_Up.py").write_text(f"{SOURCE}# {number}")
    return str(made)


def measure(workers: Workers, survey: Survey, config: RunConfig = CONFIG, **wiring: Any) -> tuple[Result, ...]:
    """Carry a suite out."""
    go_on = wiring.pop("go_on", lambda _: True)

    async def run() -> tuple[Result, ...]:
        pool = WorkerPool([workers], survey.workers or 2)
        given = CampaignWiring(**{"executor": pool, "handle_signals": False, **wiring})
        return await run_suite(survey, config, given, go_on)

    return asyncio.run(run())


def planned(workers: Workers, survey: Survey, config: RunConfig = CONFIG) -> SuitePlan:
    """The plan of a suite; nothing is measured."""
    seen: list[SuitePlan] = []

    def look(plan: SuitePlan) -> bool:
        seen.append(plan)
        return False

    measure(workers, survey, config, go_on=look)
    return seen[0]


def survey_of(target: str, out: Path, *contenders: Any, **terms: Any) -> Survey:
    """A survey at `same` with two workers."""
    return Survey(
        (target,),
        out,
        contenders,
        **{"precisions": (Precision.SAME,), "workers": 2, "explorer": ExplorerHere(), **terms},
    )
