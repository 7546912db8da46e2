"""`pike suite` with judges that answer at once: what is printed, what is kept, and how bad input ends."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from made_up_judge import TASK, Judge

from pike.cli import main
from pike.store import read_results

MINE = f"{TASK}\n# pike-instant: valid 5ms\n"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("pike.engine.executors.gpus.start_judge", lambda *_: Judge())
    monkeypatch.setattr(Judge, "asked", 0)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_the_table_the_lines_and_the_files(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["suite", str(task), "--contenders", "eager,compile", "--precision", "same,tf32", "--out", "kept"]
    assert main.run(command) == 0
    said = capsys.readouterr().out
    assert "eager" in said and "2.00×" in said
    assert "runtime-error: [bold]no compiler[/bold]" in said, "what a candidate says is never markup"
    assert len(read_results([Path("kept")])) == 4
    assert Judge.asked == 4
    assert "page      kept/index.html" in said and "halves" not in said
    Path("kept/index.html").unlink()
    assert main.run(["report", "kept"]) == 0 and Path("kept/index.html").is_file()
    capsys.readouterr()
    assert main.run(command) == 0
    assert Judge.asked == 4, "nothing is measured twice"
    assert main.run(["suite", "mine.py", "--contenders", "eager", "--dry-run", "--out", "new", "--minutes", "9"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "eager mine, same 1" in said and "times 9 minutes" in said
    assert not Path("new").exists() and Judge.asked == 4


def test_tasks_with_families_have_figures_by_halves(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("resnet50", "bert_base"):
        (task.parent / f"{name}.py").write_text(f'FAMILY = "mine"\n# {name}\n{MINE}')
    assert main.run(["suite", "resnet50.py", "bert_base.py", "--contenders", "eager"]) == 0
    lines = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    for row in (["held", "out", "1", "2.00×"], ["developed", "on", "1", "2.00×"], ["mine", "2", "2.00×"]):
        assert row in lines


def test_programs_get_one_object(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["suite", str(task), "--contenders", "eager", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"][0]["speedup"] == pytest.approx(2.0)
    assert found["results"][0]["status"] == "valid"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-suite"], "no task 'no-such-suite'"),
        (["mine.py", "--precision", "hal"], "did you mean 'half'"),
        (["mine.py", "--contenders", "tensorrt"], "needs an NVIDIA GPU"),
        (["mine.py", "--contenders", "eagr"], "did you mean 'eager'"),
        (["mine.py", "--part", "3/2"], "K/N"),
        (["mine.py", "--contenders", "published:nowhere"], "no folder of published solutions"),
    ],
)
def test_bad_input_is_one_sentence(
    task: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["suite", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not Path("runs").exists()


def test_a_strategy_that_costs_money_asks_first_and_tables_of_the_file_can_be_named(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = "```python\\n# pike-instant: valid 4ms\\nclass ModelNew: ...\\n```"
    (tmp_path / "script.toml").write_text(f'output_usd_per_mtok = 10.0\n[[answer]]\ntext = "{answer}"\n')
    (tmp_path / "study.toml").write_text(
        "[budget]\nqueries = 2\n[campaign]\ncontenders = ["
        '{name = "mine", base = "pike-b:no-iba", llm = "scripted:script.toml"}]\n'
    )
    command = ["suite", str(task), "--contenders", "eager,mine", "--config", "study.toml"]
    assert main.run(command) == 2
    assert "--yes" in capsys.readouterr().err
    assert main.run([*command, "--yes"]) == 0
    said = capsys.readouterr().out
    assert "eager" in said and "2.50×" in said and "mine" in said


def test_warnings_of_libraries_go_to_a_file(
    task: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = Judge.facts

    def warning(judge: Judge, device: str) -> object:
        warnings.warn("weights are not one chunk", stacklevel=1)
        return facts(judge, device)

    monkeypatch.setattr(Judge, "facts", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main.run(["suite", str(task), "--contenders", "eager", "--out", "kept"]) == 0
    assert "not one chunk" not in capsys.readouterr().err
    assert "not one chunk" in Path("kept/warnings.log").read_text()
