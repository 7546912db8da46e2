"""`pike baseline` with judges that answer at once: what is printed, what is kept, and how bad input ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pike.cli import main
from pike.core.device import DeviceFacts
from pike.core.evaluation import Evaluation, EvaluationRequest, Status
from pike.engine import survey
from pike.engine.executors.instant import instant_verdict

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(2)]


def get_init_inputs():
    return []


# pike-instant: valid 5ms
"""


class Judge:
    asked = 0

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        Judge.asked += 1
        if "self.compile" in request.source:
            return Evaluation(Status.RUNTIME_ERROR, "[bold]no compiler[/bold]")
        return instant_verdict(request)

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "made up")

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ways = survey.Ways(lambda _: DeviceFacts("cpu", "made up"), Judge)
    monkeypatch.setattr(survey, "Ways", lambda: ways)
    monkeypatch.setattr(Judge, "asked", 0)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(TASK)
    return path


def test_the_table_the_lines_and_the_files(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["baseline", str(task), "--baselines", "eager,compile", "--precision", "same,tf32", "--out", "kept"]
    assert main.run(command) == 0
    said = capsys.readouterr().out
    assert "eager" in said and "2.00×" in said
    assert "runtime-error: [bold]no compiler[/bold]" in said, "what a candidate says is never markup"
    assert {path.name for path in Path("kept").iterdir()} == {"mine_same.json", "mine_tf32.json"}
    assert Judge.asked == 4
    assert main.run(command) == 0
    assert Judge.asked == 4, "nothing is measured twice"
    assert main.run([*command, "--again"]) == 0
    assert Judge.asked == 8


def test_programs_get_one_object(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["baseline", str(task), "--baselines", "eager", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"][0]["speedup"] == pytest.approx(2.0)
    assert found["results"][0]["status"] == "valid"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-suite"], "no task 'no-such-suite'"),
        (["mine.py", "--precision", "hal"], "did you mean 'half'"),
        (["mine.py", "--baselines", "tensorrt"], "needs an NVIDIA GPU"),
        (["mine.py", "--baselines", "published:nowhere"], "no folder of published solutions"),
    ],
)
def test_bad_input_is_one_sentence(
    task: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["baseline", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not Path("runs").exists()
