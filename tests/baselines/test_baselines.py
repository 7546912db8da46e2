"""Every baseline is a real candidate: the real judge accepts it on both shapes of a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
import torch

from pike.baselines import BASELINES, COMPILE, for_device, source
from pike.baselines.catalogue import EAGER
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status, Weights
from pike.judge.client import JudgeClient

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.linear(x)) * 2


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
"""
SHORT = EvaluateOptions(device="cpu", max_timing_seconds=0.4, timeout_seconds=120, threads=1)
CORRECT = {Status.VALID, Status.UNTRUSTED_TIMING}
"""Verdicts on a right answer; a busy machine can spoil the clock, which is not what is tested here."""


@pytest.fixture
def source_task() -> Task:
    return Task("test/linear", "linear", TaskKind.SOURCE, SOURCE, "linear.py")


@pytest.fixture
def module_task(tmp_path: Path) -> Task:
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())
    payload = tmp_path / "task.pkl"
    content = {"module": module, "args": (torch.randn(32, 64),), "kwargs": {}, "make_inputs": None}
    payload.write_bytes(cloudpickle.dumps(content))
    return Task("module/seq", "seq", TaskKind.MODULE, "", "test", str(payload))


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeClient]:
    client = JudgeClient()
    yield client
    client.close()


def test_eager_gets_the_weights_by_state_dict(judge: JudgeClient, source_task: Task) -> None:
    verdict = judge.evaluate(EvaluationRequest(source_task, source(EAGER, source_task), SHORT))
    assert verdict.status in CORRECT, verdict.reason
    assert verdict.weights is Weights.STATE_DICT


def test_eager_gets_a_live_module_through_from_reference(judge: JudgeClient, module_task: Task) -> None:
    verdict = judge.evaluate(EvaluationRequest(module_task, source(EAGER, module_task), SHORT))
    assert verdict.status in CORRECT, verdict.reason
    assert verdict.weights is Weights.FROM_REFERENCE


def test_compiling_really_happens(source_task: Task) -> None:
    namespace: dict[str, object] = {}
    exec(source(COMPILE, source_task), namespace)
    model = namespace["ModelNew"](8)  # type: ignore[operator]
    assert model._compiled_call_impl is not None
    assert namespace["Model"](8)._compiled_call_impl is None  # type: ignore[operator]


def test_cuda_graph_modes_are_left_out_on_a_cpu() -> None:
    assert [baseline.name for baseline in for_device(False)] == ["eager", "compile", "compile:max-autotune"]
    assert for_device(True) == BASELINES
