"""Another machine judges: the command line, with a real judge where nothing is installed but torch and numpy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli_runs import FASTER, QUICK, TASK, WRONG

from pike.cli import main
from pike.core.events import Judged
from pike.store import read

SOURCE = Path(main.__file__).parents[2]
ONLY_TORCH = """
import importlib.metadata, re, sys

def plain(name):
    return re.sub("[-_.]+", "-", name).lower()

def needed(name, found):
    name = plain(name)
    if name not in found:
        found.add(name)
        try:
            for one in importlib.metadata.requires(name) or ():
                if "extra ==" not in one:
                    needed(re.split("[^A-Za-z0-9_.-]", one)[0], found)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found

PACKAGES = importlib.metadata.packages_distributions()
HERE = needed("torch", set()) | needed("numpy", set())

class Missing:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in PACKAGES and top != "pike" and not HERE.intersection(map(plain, PACKAGES[top])):
            raise ModuleNotFoundError(f"No module named '{top}'", name=top)

sys.meta_path.insert(0, Missing())
"""
"""A `sitecustomize` under which every package is missing that torch and numpy do not need."""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has torch and numpy only."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(ONLY_TORCH)
    return {**os.environ, "PYTHONPATH": f"{tmp_path / 'bare'}:{SOURCE}"}


@pytest.mark.slow
def test_a_run_is_judged_where_nothing_is_installed_but_torch(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK)
    start = ["optimize", "task.py", *QUICK, "--strategy", "best-of-n", "--llm", "by-hand", "--query-budget", "3"]
    assert main.run([*start, "--concurrency", "2", "--out", "run"]) == 0
    assert main.run(["ask", "run", "--all", "--out", "answers"]) == 0
    for step, answer in enumerate((FASTER, WRONG)):
        (tmp_path / "answers" / f"step-{step}.py").write_text(answer)
    assert main.run(["bundle", "run", "answers"]) == 0
    assert "pike judge run.bundle" in capsys.readouterr().err

    missing = subprocess.run([sys.executable, "-c", "import typer"], env=bare, capture_output=True, check=False)
    assert missing.returncode == 1
    command = [sys.executable, "-m", "pike", "judge", "run.bundle"]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 have verdicts in run.bundle.verdicts.jsonl" in done.stdout
    other = subprocess.run([*command, "--out", "task.py"], env=bare, capture_output=True, text=True, check=False)
    assert (other.returncode, other.stderr.count("\n")) == (2, 1), other.stderr

    for option in (["--author", "me"], ["--usd", "1"]):
        assert main.run(["tell", "run", "run.bundle.verdicts.jsonl", *option]) == 2
    assert not any(isinstance(entry.event, Judged) for entry in read(tmp_path / "run"))
    assert main.run(["judge", "."]) == 2
    assert main.run(["tell", "run", "run.bundle.verdicts.jsonl", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["answers"]
    assert [one["evaluation"]["status"] for one in told] == ["valid", "wrong-output"]
    assert sum(isinstance(entry.event, Judged) for entry in read(tmp_path / "run")) == 2
    assert main.run(["tell", "run", "run.bundle"]) == 2
    assert main.run(["bundle", "run"]) == 2
    assert "No candidate waits for a verdict" in capsys.readouterr().err
