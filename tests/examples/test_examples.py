"""The scripts in `examples/` run as they are, with settings that make them short."""

from __future__ import annotations

import ast
import inspect
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import pike

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = ["evaluate.device=cpu", "evaluate.threads=1", "evaluate.max_timing_seconds=0.3", "engine.finalists=1"]
QUICK += ["evaluate.correctness_seeds=1"]
ONE_CANDIDATE = ["strategy.preset=pike-b", "budget.queries=1"]
ONE_TASK = f"campaign.tasks=['{EXAMPLES}/models/row_by_row.py']"


def test_there_are_five_and_each_says_what_it_shows_and_how_long_it_takes() -> None:
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert len(scripts) == 5
    for path in scripts:
        text = path.read_text()
        docstring = ast.get_docstring(ast.parse(text)) or ""
        assert "Shows " in docstring and "minute" in docstring, path.name
        assert len(text.splitlines()) < 80, path.name


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_calls_what_is_there(path: Path) -> None:
    assert callable(runpy.run_path(str(path), run_name="example")["main"])
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    for call in (one for one in calls if ast.unparse(one.func).startswith("pike.")):
        function = getattr(pike, ast.unparse(call.func).removeprefix("pike."))
        assert {word.arg for word in call.keywords} <= inspect.signature(function).parameters.keys()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        pytest.param("vision_model", ONE_CANDIDATE, "<Optimized ", marks=pytest.mark.slow),
        pytest.param("huggingface_model", ONE_CANDIDATE, "same weights: True", marks=pytest.mark.slow),
        pytest.param("coding_agent", [], "c1: ", marks=pytest.mark.slow),
        pytest.param(
            *("campaign", ["budget.queries=1", ONE_TASK, "campaign.contenders=['best-of-n']"], "0 of 1 runs failed"),
            marks=pytest.mark.slow,
        ),
        pytest.param("model_behind_api", [], "2 queries", marks=pytest.mark.slow),
    ],
)
def test_an_example_runs(name: str, settings: list[str], words: str, tmp_path: Path) -> None:
    if name == "huggingface_model":
        pytest.importorskip("transformers")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *QUICK, *settings]
    without_compiler = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=without_compiler, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout, done.stderr
