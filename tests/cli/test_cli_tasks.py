"""`pike tasks`: suites, what is in one, and what lint found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pike.cli.main import app

FILE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(48, 48)
    def forward(self, x):
        return {result}
def get_inputs():
    return [torch.randn(32, 48)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound task, one that tests nothing, and one that is broken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "1_sound.py").write_text(FILE.format(result="self.layer(x)"))
    (folder / "2_zero.py").write_text(FILE.format(result="0 * self.layer(x)"))
    (folder / "3_broken.py").write_text(FILE.format(result="("))
    return folder


def pike(*words: str):
    done = CliRunner().invoke(app, ["tasks", *words])
    return done.exit_code, done.stdout, " ".join(done.stderr.split())  # however long the paths are


def test_suites_are_listed_with_how_to_go_on():
    code, shown, _ = pike()
    assert code == 0
    assert "demo" in shown and "pike tasks SUITE" in shown
    _, shown, _ = pike("--json")
    assert {"name": "demo", "tasks": 4} in json.loads(shown)["suites"]


@pytest.mark.slow
def test_families_are_listed_where_tasks_declare_them(suite):
    (suite / "resnet50.py").write_text(f'FAMILY = "convnet"\n{FILE.format(result="self.layer(x)")}')
    code, shown, _ = pike(str(suite))
    assert code == 0 and "convnet, held out" in " ".join(shown.replace("│", " ").split())
    (suite / "resnet50.py").unlink()
    assert "family" not in pike(str(suite))[1]


@pytest.mark.slow
def test_a_suite_is_linted_once_and_its_table_says_what_was_found(suite):
    """One after the other: each step needs what the one before has kept."""
    code, shown, notes = pike(str(suite), "--lint", "--device", "cpu")
    assert code == 1
    assert "1 of 3 tasks sound" in shown
    assert "zeros" in shown
    assert "does not parse" in shown + notes

    code, _, notes = pike(str(suite), "--lint", "--device", "cpu", "--json")
    assert code == 1
    assert "mine/1_sound: sound at same (known)" in notes
    assert notes.count("(known)") == 2

    code, shown, notes = pike(str(suite))
    assert code == 0
    for words in ("mine/1_sound", "2,352", "float32[32, 48]", "sound at same", "would pass at same", "unknown"):
        assert words in shown, words
    assert "mine/3_broken" in notes and "does not parse" in notes

    rows = json.loads(pike(str(suite), "--json")[1])["tasks"]
    sound, zero, broken = rows
    assert sound["id"] == "mine/1_sound" and sound["path"] == str(suite / "1_sound.py") and sound["parameters"] == 2352
    assert sound["inputs"] == sound["outputs"]
    assert sound["outputs"][0]["shape"] == [32, 48] and sound["outputs"][0]["dtype"] == "float32"
    assert sound["lint"]["sound"] and not zero["lint"]["sound"] and "zeros" in zero["lint"]["passing"]
    assert broken["outputs"] is None and broken["lint"] is None and "does not parse" in broken["problems"][0]


def test_one_task_is_looked_into_as_well(suite):
    code, shown, _ = pike(str(suite / "1_sound.py"))
    assert code == 0
    assert "1_sound" in shown and "not linted" in shown


def test_lint_wants_to_know_of_what():
    done = CliRunner().invoke(app, ["tasks", "--lint"])
    assert done.exit_code != 0
    assert "pike tasks --lint SUITE" in str(done.exception)
