"""What a task's file declares reaches the reference: weights that it sets itself, and one sentence where that fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.judge.conftest import OPTIONS

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import DEVICE_MEMORY, EvaluationRequest, Status
from pike.judge.reference.reference import load

FILE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(96, 96, bias=False)
        self.register_buffer("shift", torch.zeros(96))

    def forward(self, x):
        return self.layer(x) + self.shift


def initialise(model):
    model.layer.weight.normal_(0.0, 0.5)
    model.shift.normal_()
    model.train()


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(96, 96, bias=False)
        self.register_buffer("shift", torch.zeros(96))

    def forward(self, x):
        return torch.addmm(self.shift, x, self.layer.weight.t())
"""


def task_of(source: str) -> Task:
    return Task("made", "made", TaskKind.SOURCE, source, "made.py")


def test_a_file_sets_its_weights_and_buffers_the_same_way_each_time():
    torch.manual_seed(1)
    first = load(task_of(FILE)).model
    torch.manual_seed(2)
    second = load(task_of(FILE)).model
    assert 0.4 < float(first.layer.weight.detach().std()) < 0.6
    assert all(torch.equal(one, second.state_dict()[key]) for key, one in first.state_dict().items())


def test_the_model_is_in_eval_mode_and_still_has_gradients_to_give():
    model = load(task_of(FILE)).model
    assert not model.training
    assert model.layer.weight.requires_grad


def test_a_failing_initialise_is_named():
    with pytest.raises(UserError, match=r"'made': initialise\(model\) raised ZeroDivisionError"):
        load(task_of(FILE.replace("model.train()", "1 / 0")))


def test_weights_are_set_on_the_device_that_is_asked_for():
    shown = 'raise RuntimeError(f"{model.layer.weight.device} and {torch.ones(1).device}")'
    with pytest.raises(UserError, match="meta and meta"):
        load(task_of(FILE.replace("model.train()", shown)), torch.device("meta"))


def test_a_device_without_memory_says_nothing_about_the_task():
    words = "CUDA error: out of memory"
    with pytest.raises(torch.OutOfMemoryError, match=words):
        load(task_of(FILE.replace("model.train()", f"raise RuntimeError({words!r})")))


def test_a_task_that_does_not_fit_when_no_other_judge_is_at_work_is_an_error_with_its_cure(judge):
    words = r"'made' finds too little memory on cpu .* end other programs that use it, or take a smaller task"
    request = EvaluationRequest(
        task_of(FILE.replace("model.train()", "raise RuntimeError('CUDA out of memory')")), CANDIDATE, OPTIONS
    )
    assert judge.evaluate(request).labels == (DEVICE_MEMORY,)
    with pytest.raises(UserError, match=words):
        judge.evaluate(replace(request, alone=True))


def test_a_candidate_receives_what_the_file_set(verdict):
    found = verdict(CANDIDATE, task=task_of(FILE))
    assert found.status is Status.VALID, found.reason
    other = CANDIDATE.replace("self.shift, x", "0 * self.shift, x")
    assert verdict(other, task=task_of(FILE)).status is Status.WRONG_OUTPUT


def test_a_draw_depends_on_its_seed_and_records_no_stack(monkeypatch):
    """`torch.manual_seed` does so for each kind of device that was never used, at every draw."""
    reference = load(task_of(FILE))
    torch.manual_seed(5)
    expected = torch.randn(64, 96)

    def written_down(*_):
        raise AssertionError("the stack was formatted")

    monkeypatch.setattr("traceback.format_stack", written_down)
    assert torch.equal(reference.draw(5).args[0], expected)
