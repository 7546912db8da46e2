"""What a person sees of a run on a terminal, from its own process and from another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_up_judge import GO, HELD, SECONDS, TASK
from screen import Shown

from pike.cli import main

JUDGED_SLOWLY = [sys.executable, str(Path(__file__).parent / "made_up_judge.py")]
VERDICTS = ("valid 8ms", "wrong-output off by [bold]0.3", "valid 5ms", "build-error no such header", "valid 2.5ms")
CAMPAIGN = """
[campaign]
tasks = ["task.py"]
contenders = ["best-of-n"]

[budget]
queries = 5

[engine]
concurrency = 1

[llm]
coa = "scripted:script.json"
"""
COLOUR = b"\x1b[32m"
LAST_WAITS = {SECONDS: "0.1", HELD: "2.5ms"}
"""The judge does not finish with the last candidate before the file `GO` is there."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = [f"```python\n# pike-instant: {one}\nclass ModelNew: ...\n```" for one in VERDICTS]
    answers = [{"step": step, "text": text} for step, text in enumerate(texts)]
    (tmp_path / "script.json").write_text(json.dumps({"output_usd_per_mtok": 5.0, "answer": answers}))
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "study.toml").write_text(CAMPAIGN)
    return tmp_path


def optimize(*more: str) -> list[str]:
    budgets = ["--query-budget", "5", "--usd-budget", "1", "--concurrency", "2"]
    search = ["--llm", "scripted:script.json", "--strategy", "best-of-n", *budgets]
    return [*JUDGED_SLOWLY, "optimize", "task.py", *search, "--out", "run", "--yes", *more]


def pike(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environment
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_a_run_is_seen_alike_on_its_own_terminal_and_on_another(folder: Path) -> None:
    own = Shown(optimize(), folder, **LAST_WAITS)
    own.until(lambda screen: "trajectory" in screen)
    other = Shown([*JUDGED_SLOWLY, "watch", "run"], folder)
    for shown, doing in ((own, "judged: timing (worker 1)"), (other, "judged (worker 1)")):
        screen = shown.until(lambda screen: "c3 build-error: no such header" in screen and "of 5" in screen)
        assert "c1 wrong-output: off by [bold]0.3" in screen, "what a candidate says is never markup"
        assert "task  searching" in screen and "of $1.00" in screen and "best " in screen
        assert "▁" in screen or "█" in screen
        assert "original 10.0 ms" in screen
        shown.until(lambda screen: "to the end" in screen and "then the finalists" in screen)
        shown.until(lambda screen, doing=doing: any("c4" in line and doing in line for line in screen.split("\n")))
    (folder / GO).touch()
    assert (own.end(), other.end()) == (0, 0)
    for shown in (own, other):
        assert "trajectory" not in shown.text, "the panel leaves no trace"
        assert "The best is c4" in shown.text and "4.00×" in shown.text
        assert COLOUR in shown.raw
    assert (folder / "run" / "report.html").is_file()


@pytest.mark.slow
def test_a_run_that_has_ended_shows_how_without_colours_where_none_are_wanted(folder: Path) -> None:
    done = pike(folder, optimize())
    assert done.returncode == 0, done.stderr
    assert "c3: build-error" in done.stderr and "\x1b" not in done.stdout + done.stderr
    command = [*JUDGED_SLOWLY, "watch", "run"]
    option, variable = Shown([*command, "--no-color"], folder), Shown(command, folder, NO_COLOR="1")
    dumb = Shown(command, folder, TERM="dumb")
    plain = pike(folder, command).stderr.splitlines()
    assert [line for line in plain if "(" in line] == plain[-1:], "only the last event has the figures of the end"
    assert plain[-1].startswith("[") and "best 4.00×" in plain[-1]
    quiet = pike(folder, [*command, "--quiet", "--json"])
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert json.loads(quiet.stdout)["speedup"] == 4.0
    for shown in (option, variable, dumb):
        assert shown.end() == 0 and "The best is c4" in shown.text
        assert COLOUR not in shown.raw
    assert b"\x1b" not in dumb.raw


def test_quietly_nobody_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    words = [word for word in optimize("--quiet") if word != "--yes"]
    assert main.run(words[len(JUDGED_SLOWLY) :]) == 2
    said = capsys.readouterr()
    assert "add --yes to agree" in said.err and said.err.count("\n") == 1 and not said.out


def test_a_run_goes_on_after_its_watcher_and_a_watcher_says_how_it_goes_on_after_its_death(folder: Path) -> None:
    own = subprocess.Popen(optimize("--quiet"), cwd=folder, env=os.environ | LAST_WAITS)
    while not (folder / "run" / "journal.sqlite").exists():
        assert own.poll() is None
        time.sleep(0.05)
    command = [*JUDGED_SLOWLY, "watch", "run"]
    interrupted = Shown(command, folder)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    watcher = subprocess.Popen(command, cwd=folder, text=True, **streams)
    interrupted.until(lambda screen: "trajectory" in screen)
    interrupted.process.send_signal(signal.SIGINT)
    assert interrupted.end() == 130 and not interrupted.text.strip()
    assert own.poll() is None

    assert watcher.stderr is not None
    assert any("c2: 2.00x" in line for line in watcher.stderr)
    own.send_signal(signal.SIGKILL)
    said = watcher.communicate(timeout=60)[0]
    own.wait()
    assert watcher.returncode == 130
    assert "Its number is the search's" in said and "pike report" in said
    assert "Stopped: no process of this machine works on it. Continue with:  pike resume" in said


@pytest.mark.slow
def test_a_campaign_is_watched_from_its_folder(folder: Path) -> None:
    own = Shown([*JUDGED_SLOWLY, "campaign", "study.toml", "--out", "many", "--yes"], folder, **LAST_WAITS)
    own.until(lambda screen: "geomean so far" in screen and "best " in screen)
    other = Shown([*JUDGED_SLOWLY, "watch", "many"], folder)
    other.until(lambda screen: "0/1 runs" in screen and "best " in screen and "queries" in screen)
    (folder / GO).touch()
    assert (own.end(), other.end()) == (0, 0)
    assert "clamped" in other.text and "4.00×" in other.text
    assert "campaign.json" in other.text


@pytest.mark.parametrize(("name", "cure"), [("nowhere", "journal.sqlite"), ("suite", "one of the runs below it")])
def test_a_folder_that_cannot_be_watched_is_one_sentence(
    name: str, cure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "results-20260101.jsonl").write_text("")
    assert main.run(["watch", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert cure in said and said.count("\n") == 1
