"""Tasks that test nothing are refused with what would pass, and tasks that test something are not."""

import json

import pytest
import torch
from typer.testing import CliRunner

from pike.cli.main import app
from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Precision, Status
from pike.judge import lint as linting
from pike.judge.candidate_evaluation import TESTS_NOTHING
from pike.judge.reference.in_process import InProcess
from pike.judge.reference.reference import Inputs

TEMPLATE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(48, 48)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(48, 48)

    def forward(self, x):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
LAYERS = "self.second(self.drop(self.first(x)))"


def made(result: str = LAYERS, inputs: str = "torch.randn(32, 48)") -> Task:
    source = TEMPLATE.format(result=result, inputs=inputs)
    return Task("made", "made", TaskKind.SOURCE, source, "made.py")


def lint(judge, task):
    return judge.lint(task, EvaluateOptions(device="cpu", threads=1))


def test_a_task_that_computes_something_is_sound(judge):
    found = lint(judge, made())
    assert found.sound
    tried = {answer.name for answer in found.answers}
    assert {
        "zeros",
        "a constant",
        "the mean answer",
        "another input's answer",
        "a copied input",
        "shuffled rows",
    } < tried
    assert {"without 'first' (zeros instead)", "without 'second' (its input instead)"} < tried
    assert "without 'drop' (its input instead)" not in tried  # dropout does nothing at inference, and may go


@pytest.mark.parametrize(
    ("result", "inputs", "passes"),
    [
        (f"{LAYERS} * 0", "torch.randn(32, 48)", "zeros"),
        (f"{LAYERS} * 0 + 2", "torch.randn(32, 48)", "a constant"),
        (LAYERS, "torch.linspace(0, 1, 48 * 32).view(32, 48)", "another input's answer"),
        (f"x + 1e-9 * {LAYERS}", "torch.randn(32, 48)", "a copied input"),
        (f"{LAYERS}.mean(dim=0, keepdim=True).expand(32, 48).contiguous()", "torch.randn(32, 48)", "shuffled rows"),
    ],
)
def test_a_task_with_a_trivial_answer_is_refused_and_says_which(verdict, rewrite, result, inputs, passes):
    with pytest.raises(UserError, match=rf"tests nothing.*{passes}.*evaluate\.lint=false"):
        verdict(rewrite(), task=made(result, inputs))


def test_a_part_that_changes_nothing_is_found(judge):
    found = lint(judge, made(f"self.second(x) + 1e-10 * {LAYERS}"))
    assert {answer.name for answer in found.passing} >= {"without 'first' (zeros instead)"}
    assert "without 'second' (zeros instead)" not in {answer.name for answer in found.passing}


def test_a_trivial_task_is_judged_on_demand(verdict):
    task = made("torch.zeros_like(x)")
    source = task.source.replace("class Model(", "class ModelNew(")
    found = verdict(source, task=task, lint=False)
    assert found.status is Status.VALID
    assert TESTS_NOTHING in found.labels, "the verdict says so"


def test_the_command_says_which_answer_passes_and_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "copies.py"
    path.write_text(made("x + 0").source)
    done = CliRunner().invoke(app, ["tasks", "--lint", str(path), "--device", "cpu", "--json"])
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert not said["sound"]
    assert [answer["name"] for answer in said["answers"] if not answer["refused"]] == ["a copied input"]


SELDOM = TEMPLATE.replace("self, x):", "self, x, share):").format(
    result="self.first(x) + share * self.second(x)", inputs="torch.randn(32, 48), torch.rand(1)"
)


class Seldom(InProcess):
    """Its first inputs hardly use the second layer, like an expert that few tokens are sent to."""

    shares = 0

    def draw(self, seed: int) -> Inputs:
        inputs = super().draw(seed)
        self.shares += 1
        # The first two draws show that a seed decides the inputs.
        return Inputs((inputs.args[0], torch.tensor([1e-12 if self.shares == 3 else 0.5])), {})


def test_a_part_must_be_missed_on_one_of_several_inputs():
    task = Task("seldom", "seldom", TaskKind.SOURCE, SELDOM, "seldom.py")
    report = linting.lint(Seldom(task, torch.device("cpu"), Precision.SAME))
    assert "without 'second' (zeros instead)" in {answer.name for answer in report.answers}
    assert report.sound, report.passing
