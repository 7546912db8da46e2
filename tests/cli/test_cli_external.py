"""A run played by hand, as a person at a terminal does it: each move opens the run anew, a real judge once."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_cli_runs import QUICK, TASK, WRONG, only_object

from pike.api.campaigns import campaign_file, campaign_usd
from pike.cli import main

Pike = Callable[..., SimpleNamespace]


@pytest.fixture
def pike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pike:
    """The command without a process of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main.run(arguments)
        said = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)

    return run


def test_a_run_is_played_by_hand_from_the_first_prompt_to_the_end(tmp_path: Path, pike: Pike) -> None:
    (tmp_path / "task.py").write_text(TASK)
    start = ["optimize", "task.py", *QUICK, "--set", "engine.finalists=1", "--strategy", "agent", "--query-budget", "1"]
    begun = pike(*start, "--out", "run")
    assert begun.returncode == 0, begun.stderr
    assert "pike ask" in begun.stdout

    asked = pike("ask", "run")
    assert asked.returncode == 0
    assert "class Model(torch.nn.Module)" in asked.stdout
    assert "pike tell run ANSWER --step 0" in asked.stderr
    to_file = pike("ask", "run", "--out", "prompt.md")
    assert (tmp_path / "prompt.md").read_text() == asked.stdout
    assert to_file.stdout == ""

    every = pike("ask", "run", "--all", "--out", "batch")
    assert (every.returncode, every.stdout.count("1 prompt")) == (0, 1)
    assert "pike tell run batch" in every.stderr
    assert (tmp_path / "batch" / "step-0.prompt.md").read_text() == asked.stdout
    assert "with --out" in pike("ask", "run", "--all").stderr

    binary = pike("tell", "run", "-", stdin=b"\x7fELF\xff\xfe")
    assert (binary.returncode, binary.stderr.count("\n")) == (2, 1)
    assert "UTF-8" in binary.stderr

    last = pike("tell", "run", "-", "--usd", "0.5", "--json", stdin=WRONG.encode())
    told = only_object(last.stdout)
    assert told["evaluation"]["status"] == "wrong-output", last.stderr
    assert (told["finished"], told["queries_left"], told["parent"]) == (True, 0, "original")

    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["spend"]["queries"], result["spend"]["usd"]) == (1, 0.5)
    over = pike("ask", "run")
    assert (over.returncode, over.stdout) == (2, "")
    assert "is finished" in over.stderr

    (tmp_path / "batch" / "step-0.md").write_text(WRONG)
    again = pike("tell", "run", "batch")
    assert (again.returncode, again.stdout.count("wrong-output")) == (1, 1)
    assert "(answered before)" in again.stdout
    assert "no option but --author" in pike("tell", "run", "batch", "--usd", "1").stderr


def test_a_missing_key_is_said_before_anybody_is_asked_to_spend(
    tmp_path: Path, pike: Pike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "study.toml").write_text('[campaign]\ntasks = ["task.py"]\ncontenders = ["best-of-n"]\n')
    for verb in (["optimize", "task.py"], ["campaign", "study.toml"]):
        refused = pike(*verb, "--llm", "anthropic:claude-opus-4-6")
        assert refused.returncode == 2
        assert "set the environment variable ANTHROPIC_API_KEY" in refused.stderr
    assert campaign_usd(campaign_file(tmp_path / "study.toml", llm="by-hand")) == 0


def test_a_campaign_takes_no_single_answer(tmp_path: Path, pike: Pike) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "plan.json").write_text("{}")
    (tmp_path / "answer.md").write_text("I have no idea.")
    told = pike("tell", "study", "answer.md")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert "study is a campaign: give a folder of answers" in told.stderr
