"""The worked example that prompts show for a CPU, judged as a candidate of the model that it is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pike import agents
from pike.agents.reading.extract import extract
from pike.core.query import Finish
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return [1024]
"""


@pytest.mark.slow
@pytest.mark.timed
def test_the_cpp_example_is_right_and_faster(verdict: Callable[..., Evaluation]) -> None:
    text = (Path(agents.__file__).parent / "templates" / "examples" / "cpp.md").read_text()
    task = Task("demo/rms_norm", "rms_norm", TaskKind.SOURCE, MODEL, "rms_norm.py")
    found = verdict(extract(text, Finish.STOP).source, task=task, timeout_seconds=300.0)
    assert found.valid, found.reason
    assert found.timing is not None
    assert found.timing.speedup > 1.0, found.timing
