"""One judge process for all tests of the room, and a task small enough to be judged in a second."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest
from pike.judge.client import JudgeClient

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width, bias=False)
        self.gain = 1.5

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) * self.gain


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96]
"""

OPTIONS = EvaluateOptions(max_timing_seconds=0.4, timeout_seconds=60.0, correctness_seeds=2, threads=1)
"""One thread, because several wait for each other where the machine is busy."""


@pytest.fixture(scope="session")
def judge() -> Iterator[JudgeClient]:
    client = JudgeClient()
    yield client
    client.close()


@pytest.fixture
def task() -> Task:
    return Task("small", "two linear layers", TaskKind.SOURCE, SOURCE, "small.py")


@pytest.fixture
def verdict(judge: JudgeClient, task: Task) -> Callable[..., Evaluation]:
    """`verdict(source, task=..., any option=...)` judges one candidate."""

    def judged(source: str, task: Task = task, effort: Effort = Effort.SEARCH, **options: object) -> Evaluation:
        return judge.evaluate(EvaluationRequest(task, source, replace(OPTIONS, **options), effort))

    return judged


@pytest.fixture
def rewrite() -> Callable[..., str]:
    """The reference as a candidate, with lines of `forward` put before its return or its result changed."""

    def made(before: str = "pass", result: str = "y", top: str = "") -> str:
        body = (
            f"        y = self.second(torch.relu(self.first(x))) * self.gain\n        {before}\n        return {result}"
        )
        original = "        return self.second(torch.relu(self.first(x))) * self.gain"
        return top + SOURCE.replace("class Model(", "class ModelNew(").replace(original, body)

    return made
