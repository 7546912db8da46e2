"""`pike campaign` on the command line."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
import typer
from rich.console import Console

from pike.api.campaigns import Shared, campaign
from pike.api.views import CampaignProgress
from pike.cli import main
from pike.cli.compare.campaign import CampaignWatcher, finish
from pike.cli.terminal import Terminal
from pike.engine.executors.instant import InstantExecutor
from pike.engine.schedule.progress import ContenderProgress, OpenRun

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""
CANDIDATE = "```python\\n# pike-instant: valid 4ms final 5ms\\nclass ModelNew: ...\\n```"
CONFIG = """
[campaign]
tasks = ["{folder}/relu.py", "{folder}/missing.py"]
contenders = ["pike-b:no-iba"]
query_cuts = [2]

[budget]
queries = 4

[engine]
concurrency = 2

[llm]
coa = "scripted:{folder}/script.toml"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "relu.py").write_text(SOURCE)
    (tmp_path / "script.toml").write_text(f'[[answer]]\ntext = "{CANDIDATE}"\n')
    path = tmp_path / "study.toml"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


def test_a_campaign_is_carried_on_and_reported(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = campaign(config, out=tmp_path / "c", shared=Shared(InstantExecutor()))
    assert done.figures.finished
    assert main.run(["campaign", "--resume", str(tmp_path / "c")]) == 1, "a task failed"
    said = capsys.readouterr()
    assert "2 queries" in said.out
    assert "1.41×" in said.out, "the geomean of 2 and a failed task's 1"
    assert "There is no task file" in " ".join(said.out.split()), "wherever the line wraps"
    assert main.run(["resume", str(tmp_path / "c"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["finished"] is True
    assert main.run(["report", str(tmp_path / "c")]) == 0
    assert "1.41×" in capsys.readouterr().out
    run = next(cell.folder for cell in done.figures.cells if cell.run)
    assert f"runs/{run}/report.html" in (tmp_path / "c" / "report.html").read_text()
    assert (tmp_path / "c" / "runs" / run / "report.html").exists()
    assert main.run(["report", str(tmp_path / "c" / "runs" / run)]) == 0
    capsys.readouterr()

    shutil.rmtree(tmp_path / "c" / "runs" / run / "blobs")
    assert main.run(["report", str(tmp_path / "c" / "runs" / run)]) == 3
    assert "which is missing" in " ".join(capsys.readouterr().err.split())


def test_a_campaign_is_replayed(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(config, out=tmp_path / "c", shared=Shared(InstantExecutor()))
    assert main.run(["report", str(tmp_path / "c")]) == 0
    capsys.readouterr()
    again = ["campaign", str(config), "--llm", f"replay:{tmp_path / 'c'}", "--out", str(tmp_path / "again"), "--yes"]
    assert main.run([*again, "--json"]) == 1
    assert (
        json.loads(capsys.readouterr().out)["standings"]
        == json.loads((tmp_path / "c" / "campaign.json").read_text())["standings"]
    )


def test_runs_that_wait_for_answers_are_no_failed_ones(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace(f', "{tmp_path}/missing.py"', ""))
    done = campaign(config, out=tmp_path / "c", llm="by-hand", shared=Shared(InstantExecutor()))
    with pytest.raises(typer.Exit) as end:
        finish(Terminal(), done.folder, done.figures)
    assert end.value.exit_code == 0
    said = capsys.readouterr().out
    assert "waits for answers" in said
    assert "1.00×" not in said and "1/1" not in said
    assert "from when each had timed its original" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["campaign"], "--resume"),
        (["campaign", "nowhere.toml"], "nowhere.toml"),
        (["campaign", "--resume", "nowhere"], "no campaign in"),
        (["campaign", "CONFIG", "--set", "campaign.repeat=2"], "did you mean 'repeats'"),
        (["campaign", "CONFIG", "--set", "campaign.contenders=['pike-z']"], "pike-z"),
        (["campaign", "CONFIG", "--set", "engine.concurrency=0"], "engine.concurrency"),
        (["campaign", "CONFIG", "--set", "llm.coa=none", "--resume", "x"], "no campaign in|no other option"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    config: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    assert main.run([str(config) if word == "CONFIG" else word for word in arguments]) == 2
    said = capsys.readouterr().err
    assert re.search(words, said)
    assert len(said.strip().splitlines()) == 1
    assert "Traceback" not in said


def test_broken_toml_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("[campaign\n")
    assert main.run(["campaign", str(config)]) == 2
    assert "is no TOML" in capsys.readouterr().err


def test_a_campaign_that_costs_money_asks_first(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = config.parent / "script.toml"
    script.write_text(f"output_usd_per_mtok = 10.0\n{script.read_text()}")
    assert main.run(["campaign", str(config)]) == 2
    assert "--yes" in capsys.readouterr().err


def snapshot(*events: str) -> CampaignProgress:
    row = ContenderProgress("pike-b", 6, 2, 1, 120, 0.25, 1.84)
    opened = (OpenRun("demo/resnet18, pike-b, repeat 1", 12, None),)
    return CampaignProgress((row,), opened, 120, 360, 0.25, 5.0, 61.0, events)


def test_without_a_terminal_each_event_is_one_line() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    with CampaignWatcher(console) as watcher:
        watcher(snapshot("a: finished"))
        watcher(snapshot("a: finished"))
        watcher(snapshot("a: finished", "b: [oops]"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 2
    assert "b: [oops]" in lines[1]
    assert "2/6 runs, 1 failed, 120/360 queries, $0.2500 of $5.00" in lines[1]


def test_on_a_terminal_a_table_shows_every_strategy() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with CampaignWatcher(console) as watcher:
        watcher(snapshot("a: finished"))
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    for words in ("pike-b", "2/6", "1.84×", "demo/resnet18, pike-b, repeat 1", "a: finished"):
        assert words in said
