"""A run as a sequence of events, to be journalled whole or cut off anywhere."""

from __future__ import annotations

import random

from pike.core.device import DeviceFacts
from pike.core.events import (
    Admitted,
    Asked,
    Event,
    Finished,
    Judged,
    Proposed,
    QueryAnswered,
    QueryFailed,
    QuerySent,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer, Query
from pike.core.settings.budget import Budget
from pike.core.settings.config import LlmConfig, RunConfig
from pike.core.step import Candidate, Role, Step
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, Evaluation, OutputError, Status, Timing

ORIGINAL_SOURCE = """import torch


class Model(torch.nn.Module):
    # the original
    def forward(self, x):
        return torch.relu(x) + 1
"""
TOKEN = "0123456789abcdef"
LARGE = 10_000
"""Candidates of the large run."""
HOSTILE = "</pre><script>alert('owned')</script><img src=http://evil.invalid/x onerror=alert(1)>"


def valid(speedup: float, spread: float = 0.02) -> Evaluation:
    timing = Timing(10.0, 10.0 / speedup, speedup, (speedup * (1 - spread), speedup * (1 + spread)), 12, 240, 0.01)
    return Evaluation(
        Status.VALID,
        timing=timing,
        error=OutputError(1.2e-6, 3e-7, 1e-5, 4e-6),
        device="cpu (test, 2 threads)",
        seconds=(("build", 1.5), ("load", 0.25), ("first-call", 2.5), ("time", 2.5)),
        held_bytes=123_000_000,
        log="compiled",
    )


def refused(status: Status = Status.WRONG_OUTPUT, reason: str = "output 0 is off by 0.5", log: str = "") -> Evaluation:
    return Evaluation(status, reason, log=log)


def call(step: Step, usd: float | None = 0.02) -> list[Event]:
    query = Query(step.id, step.role, "system", "prompt", step.temperature, step.max_output_tokens)
    answer = Answer("text", model="model-a", input_tokens=1000, output_tokens=200, thinking_tokens=50, usd=usd)
    return [QuerySent(query, 1, "model-a", 0.1, 4000), QueryAnswered(step.id, 1, answer)]


def attempt(
    step: Step, source: str, evaluation: Evaluation, parent: str = "original", calls: bool = True
) -> list[Event]:
    candidate = Candidate(f"c{step.id}", source, parent, "model-a", f"note {step.id}")
    asked: list[Event] = [Asked(step), *(call(step) if calls else [])]
    return [*asked, Proposed(step.id, candidate), Judged(candidate.id, evaluation), Told(step.id, candidate.id)]


def started_run() -> RunStarted:
    task = Task("demo/relu", "ReLU <plus> one", TaskKind.SOURCE, ORIGINAL_SOURCE, "relu.py")
    facts = DeviceFacts("cpu", "Test CPU", threads=2, versions=(("python", "3.11"), ("torch", "2.13.0")))
    config = RunConfig("relu.py", llm=LlmConfig(coa="openai:model-a"), budget=Budget(20, 5.0))
    return RunStarted(task, config, facts, "0.1.0")


def whole_run() -> list[Event]:
    """A whole run: ideas, a recipe seed, a failure with its fix, an unreachable provider, three finalists."""
    better = ORIGINAL_SOURCE.replace("# the original", "# faster").replace("torch.relu(x) + 1", "x.clamp_(0).add_(1)")
    brainstorm = Step(0, Role.BRAINSTORM, queries=0)
    lost = Step(5, Role.OPTIMISE, sample=3)
    return [
        started_run(),
        Admitted(Candidate("r-compile", ORIGINAL_SOURCE + "# compiled\n", author="compile"), valid(1.5)),
        Asked(brainstorm),
        *call(brainstorm),
        Told(0, ideas=("fuse everything", "use half precision")),
        *attempt(Step(1, Role.OPTIMISE, sample=0), better, valid(2.0)),
        *attempt(Step(2, Role.OPTIMISE, sample=1), HOSTILE, refused(Status.BUILD_ERROR, HOSTILE, HOSTILE)),
        *attempt(Step(3, Role.FIX, sample=1, failing="c2", attempt=1), better + "# fixed\n", valid(1.8), "c2"),
        *attempt(Step(4, Role.OPTIMISE, sample=2), "nonsense", refused()),
        Asked(lost),
        QueryFailed(5, 1, "503 overloaded", True),
        Told(5, failure="the provider gave up: 503 overloaded"),
        *attempt(Step(6, Role.OPTIMISE, round=1, seed="c1"), better + "x = 1\n", valid(3.0), "c1"),
        Stopped("queries"),
        Judged("c6", valid(2.6, 0.01), Effort.FINAL),
        Judged("c1", valid(2.1, 0.01), Effort.FINAL),
        Judged("c3", refused(), Effort.FINAL),
        Finished("c6"),
    ]


KERNEL = '''import torch

SOURCE = """
#include <torch/extension.h>
__global__ void add(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;  // attempt NUMBER
  if (i < n) y[i] = x[i] > 0.0f ? x[i] + 1.0f : 1.0f;
}
"""


class ModelNew(torch.nn.Module):
    # attempt NUMBER
    def forward(self, x):
        return torch.relu(x).add_(NUMBER).sub_(NUMBER - 1)
'''
REFUSALS = (
    (Status.WRONG_OUTPUT, "output 0 is off by 0.5 at (3, 17)"),
    (Status.BUILD_ERROR, "error: identifier 'blockIdy' is undefined"),
    (Status.RUNTIME_ERROR, "RuntimeError: CUDA error: an illegal memory access was encountered"),
    (Status.TIMEOUT, "no answer within 900 s"),
)


def large_run(candidates: int) -> list[Event]:
    """A run of so many candidates, two thirds of them refused, with small gains now and then."""
    draw = random.Random(7)
    best, parents, events = 0.97, ["original"], list[Event]([started_run()])
    for number in range(candidates):
        parent = parents[-1 - min(len(parents) - 1, draw.randrange(3))]
        role = Role.FIX if number % 5 == 4 else Role.OPTIMISE
        failing = f"c{number - 1}" if role is Role.FIX else None
        step = Step(number, role, number // 20, number % 20, parent, failing=failing, attempt=int(role is Role.FIX))
        if draw.random() < 0.35:
            best = best + draw.random() * 0.02 if draw.random() < 0.02 else best
            verdict = valid(best - 0.1 * draw.random() ** 2)
            parents += [f"c{number}"] * (verdict.speedup == best or number % 50 == 0)
        else:
            verdict = refused(*REFUSALS[draw.randrange(len(REFUSALS))], log="nvcc: 1 error\n" * 4)
        events += attempt(step, KERNEL.replace("NUMBER", str(number)), verdict, parent)
    return events
