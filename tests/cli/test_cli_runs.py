"""The command as a user runs it: a process with a terminal's streams, real judges, a scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pike.cli import main

TASK = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        for _ in range(8):
            x = torch.tanh(self.linear(x))
        return x


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
"""
FASTER = TASK.replace("Model(", "ModelNew(").replace("import torch", "import torch  # the same again")
WRONG = FASTER.replace("range(8)", "range(7)")
QUICK = [
    *("--device", "cpu", "--set", "evaluate.threads=1", "--set", "evaluate.max_timing_seconds=0.3"),
    *("--set", "evaluate.correctness_seeds=1", "--set", "evaluate.timeout_seconds=60.0"),
]
RUN = [*QUICK, "--set", "engine.finalists=1", "--strategy", "pike-b:no-iba", "--yes"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "faster.py").write_text(FASTER)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def pike(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "pike", *arguments], os.environ | environment
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=900)


def only_object(text: str) -> Any:
    assert text.count("\n") == 1, text
    return json.loads(text)


def script(folder: Path, *answers: dict[str, Any]) -> str:
    (folder / "script.json").write_text(json.dumps({"answer": list(answers), "input_usd_per_mtok": 1.0}))
    return f"scripted:{folder / 'script.json'}"


def test_a_right_candidate_exits_with_0(folder: Path) -> None:
    done = pike(folder, "evaluate", "task.py", "faster.py", *QUICK, "--profile", "--json")
    verdict = only_object(done.stdout)
    assert (verdict["status"], done.returncode) in [("valid", 0), ("untrusted-timing", 1)], done.stderr
    for key in ("reason", "speedup", "speedup_ci95", "reference_ms", "candidate_ms", "max_abs_error", "rms_error"):
        assert key in verdict
    assert verdict["max_abs_error"] < 1e-3
    assert (verdict["tolerance"], verdict["precision"]) == ("strict", "same")
    assert verdict["device"]
    assert verdict["sandbox"]
    assert verdict["seconds"]["build"] > 0
    if verdict["status"] == "valid":
        assert verdict["profile"]["source"] == "torch profiler (cpu)"


def test_a_wrong_candidate_exits_with_1_and_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["evaluate", str(folder / "task.py"), str(folder / "wrong.py"), *QUICK]) == 1
    said = capsys.readouterr()
    assert "wrong-output" in said.out
    assert "judged: building" in said.err


def test_a_missing_candidate_exits_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["evaluate", str(folder / "task.py"), str(folder / "nowhere.py"), "--json"]) == 2
    assert "nowhere.py" in only_object(capsys.readouterr().out)["error"]["message"]


def test_a_whole_run_then_its_report_then_nothing_to_resume(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llm = script(folder, {"step": 0, "file": "wrong.py"}, {"file": "faster.py"})
    done = pike(folder, "optimize", "task.py", *RUN, "--llm", llm, "--query-budget", "3", "--out", "run", "--json")
    result = only_object(done.stdout)
    assert done.returncode in (0, 1), done.stderr
    assert result["finished"]
    assert result["spend"]["queries"] == 3
    assert result["spend"]["usd"] > 0
    assert "c0: wrong-output" in done.stderr
    assert json.loads((folder / "run" / "result.json").read_text()) == result
    if result["improved"]:
        assert "class ModelNew" in (folder / "run" / "best.py").read_text()

    assert main.run(["report", str(folder / "run"), "--json"]) == 0
    reported = only_object(capsys.readouterr().out)
    assert reported["summary"]["spend"] == result["spend"]
    assert "wrong-output" in (folder / "run" / "report.html").read_text()

    assert main.run(["resume", str(folder / "run")]) == done.returncode
    assert "finished already" in capsys.readouterr().out


def test_an_original_that_raises_is_one_sentence_before_the_first_query(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "task.py").write_text(TASK.replace("return x", "raise ValueError('no such mask')"))
    llm = script(folder, {"file": "faster.py"})
    words = ["optimize", "task.py", *RUN, "--llm", llm, "--query-budget", "3", "--out", "run", "--json"]
    assert (main.run(words), (folder / "run").exists()) == (2, False)
    said = only_object(capsys.readouterr().out)["error"]["message"]
    assert "does not run (ValueError: no such mask); call it on its inputs" in said and "\n" not in said


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_resume_finishes(folder: Path) -> None:
    llm = script(folder, {"file": "faster.py"}, {"step": 2, "file": "faster.py", "delay_seconds": 8.0})
    arguments = ["optimize", "task.py", *RUN, "--llm", llm, "--query-budget", "3", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pike", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "c0: " in line and ("x" in line or "timing" in line) and "round" not in line:
            break
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert time.monotonic() - started < 60
    assert "Stopped: interrupted" in out
    assert "pike resume" in out

    resumed = pike(folder, "resume", "run", "--json")
    result = only_object(resumed.stdout)
    assert result["finished"]
    assert result["spend"]["queries"] == 3


@pytest.mark.slow
def test_the_demo_ends_with_its_table_and_files(folder: Path) -> None:
    quick = ["--set", "evaluate.max_timing_seconds=0.3", "--set", "engine.finalists=1"]
    # Without a compiler, which would take minutes; that baselines compile is tested with them.
    words = ["demo", "demo/gpt_block:small", "--query-budget", "1", "--device", "cpu", *quick]
    done = pike(folder, *words, PATH=str(folder))
    assert done.returncode in (0, 1), done.stderr
    for column in (
        "model",
        "eager",
        "best",
        "speedup",
        "95 % interval",
        "error",
        "candidates",
        "time",
    ):
        assert column in done.stdout
    assert "torch.compile" not in done.stdout, "no baseline was measured"
    assert "queries" not in done.stdout + done.stderr, "recipes ask no model"
    assert "gpt" in done.stdout
    assert "resnet18" not in done.stdout
    for name in ("journal.sqlite", "result.json", "report.html"):
        assert (folder / "runs" / "demo" / "gpt_block-small" / name).exists(), name
    index = (folder / "runs" / "demo" / "index.html").read_text()
    assert "gpt_block-small/report.html" in index
