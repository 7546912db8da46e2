"""`pike import` as a user runs it, on small runs in the layouts of three tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_runs import TASK, candidate, checkpoint, pike_data, put, shinka

from pike.cli import main
from pike.reporting import RunSummary, State, summarise
from pike.store import read

Capture = pytest.CaptureFixture[str]


def imported(source: Path, out: Path, capsys: Capture) -> tuple[Path, RunSummary]:
    """The one run that `pike import` makes of a source."""
    assert main.run(["import", str(source), "--out", str(out), "--json"]) == 0
    [folder] = json.loads(capsys.readouterr().out)["runs"]
    return Path(folder), summarise(Path(folder))


def events(folder: Path) -> int:
    return sum(1 for _ in read(folder))


def test_a_data_folder_of_the_authors(tmp_path: Path, capsys: Capture) -> None:
    folder, summary = imported(pike_data(tmp_path / "data"), tmp_path / "runs", capsys)
    assert folder.name == "h100_level_3-pike_pike-b-run_0-task8"
    assert summary.state is State.IMPORTED
    assert (summary.task.id, summary.task.source) == ("level3-pike/8_ResNetBasicBlock", TASK)
    assert summary.ideas == ("fuse it", "use half")
    verdicts = [(one.candidate.note, one.verdict.status.value) for one in summary.entrants if one.verdict]
    assert verdicts == [
        ("iter_0/attempt_0", "wrong-output"),
        ("iter_0/attempt_1", "valid"),
        ("iter_1/attempt_0", "valid"),
        ("iter_2/attempt_0", "infra-error"),
        ("iter_10/attempt_0", "timeout"),
    ]
    wrong, fixed, fast, lost, late = summary.entrants
    assert fixed.step is not None and (fixed.step.attempt, fixed.derived_from) == (1, wrong.candidate.id)
    assert fast.derived_from == fixed.candidate.id, "the prompt shows the repaired one"
    assert (lost.derived_from, late.derived_from) == ("", "original"), "what is unknown stays empty"
    assert summary.best is fast and fast.speedup == 8.0
    assert summary.spend.queries == 5
    assert (summary.spend.tokens, summary.spend.unpriced) == (3 * 350 + 15, 5)
    assert {role.role.value: role.calls for role in summary.roles} == {"coa": 4, "efa": 1}


def test_a_part_of_a_data_folder_is_enough(tmp_path: Path, capsys: Capture) -> None:
    root = pike_data(tmp_path / "data")
    part = next(root.rglob("task8"))
    _, summary = imported(part, tmp_path / "runs", capsys)
    assert len(summary.entrants) == 5


def test_without_the_time_of_the_original_nothing_can_be_compared(tmp_path: Path, capsys: Capture) -> None:
    root = pike_data(tmp_path / "data")
    (root / "baseline-runtimes/h100_level_3-pike/eager.json").unlink()
    assert main.run(["import", str(root), "--out", str(tmp_path / "runs")]) == 2
    assert "baseline-runtimes" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_of_openevolve(tmp_path: Path, capsys: Capture) -> None:
    checkpoint(tmp_path / "output/checkpoints/checkpoint_1")
    checkpoint(tmp_path / "output/checkpoints/checkpoint_10")
    folder, summary = imported(tmp_path / "output", tmp_path / "runs", capsys)
    assert folder.name == "output-checkpoint_10"
    child, broken = summary.entrants
    assert (child.candidate.source, child.derived_from, child.speedup) == (candidate("child"), "original", 2.0)
    assert child.candidate.note == "child: Full rewrite"
    assert broken.derived_from == child.candidate.id, "a copy on another island is the program itself"
    assert broken.verdict is not None and broken.verdict.reason == "Eval failed"
    assert summary.best is child and child.faster
    assert (summary.started_at, summary.seconds) == (110.0, 20.0)
    assert summary.roles[0].calls == 1


def test_a_database_of_shinkaevolve(tmp_path: Path, capsys: Capture) -> None:
    folder, summary = imported(shinka(tmp_path / "results/programs.sqlite"), tmp_path / "runs", capsys)
    assert folder.name == "results-programs"
    better, wrong = summary.entrants
    assert (better.speedup, better.candidate.note) == (3.0, "b: tiles: bigger")
    assert wrong.derived_from == better.candidate.id
    assert wrong.verdict is not None and (wrong.verdict.status, wrong.verdict.log) == ("wrong-output", "outputs differ")
    assert summary.spend.usd == 0.5


@pytest.mark.parametrize(
    "make", [pike_data, checkpoint, lambda path: shinka(path / "programs.sqlite")], ids=["pike", "openevolve", "shinka"]
)
def test_the_page_says_that_pike_did_not_judge_it(
    make: Callable[[Path], Path], tmp_path: Path, capsys: Capture
) -> None:
    folder, summary = imported(make(tmp_path / "source"), tmp_path / "runs", capsys)
    assert main.run(["report", str(folder)]) == 0
    assert "PIKE did not judge it" in capsys.readouterr().out
    page = (folder / "report.html").read_text()
    assert "PIKE did not judge this run" in page
    assert summary.imported is not None and summary.imported.tool in page.replace("\\u0027", "'")
    (data,) = re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.DOTALL)
    assert not re.search(r"\bnan\b", data, re.IGNORECASE)
    assert main.run(["report", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["summary"]
    assert said["imported"]["tool"] == summary.imported.tool and said["speedup"] == summary.best.speedup  # type: ignore[union-attr]


def test_an_imported_run_cannot_be_resumed(tmp_path: Path, capsys: Capture) -> None:
    folder, _ = imported(checkpoint(tmp_path / "checkpoint"), tmp_path / "runs", capsys)
    before = events(folder)
    assert main.run(["resume", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "was imported from OpenEvolve and cannot be resumed" in said and said.count("\n") == 1
    assert events(folder) == before


def test_a_run_is_imported_once_and_whole(tmp_path: Path, capsys: Capture) -> None:
    source = checkpoint(tmp_path / "checkpoint")
    folder, _ = imported(source, tmp_path / "runs", capsys)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.name]
    assert main.run(["import", str(source), "--out", str(tmp_path / "runs")]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["nothing", "empty", "damaged", "rootless"])
def test_what_cannot_be_imported_is_one_sentence(what: str, tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "source"
    if what != "nothing":
        source.mkdir()
    if what in ("damaged", "rootless"):
        checkpoint(source)
        put(source / "programs/root.json", "{" if what == "damaged" else {"id": "root", "code": TASK, "parent_id": "x"})
    assert main.run(["import", str(source), "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "source" in said and said.count("\n") == 1
    assert not (tmp_path / "runs").exists()
