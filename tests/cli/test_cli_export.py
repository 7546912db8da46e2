"""`pike export` as a user runs it, on a run that needed neither a model nor a judge."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pike import engine
from pike.cli import main
from pike.core.settings.budget import Budget
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.task import Task, TaskKind

ANSWER = "```python\nimport torch\n# pike-instant: valid 2ms\nclass ModelNew(torch.nn.Module):\n    pass\n```"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"model": "tester", "answer": [{"role": "coa", "text": ANSWER}]}))
    config = RunConfig(
        "tiny", StrategyConfig("pike-b:no-iba"), llm=LlmConfig(coa=f"scripted:{script}"), budget=Budget(2)
    )
    wiring = engine.Wiring(executor=engine.InstantExecutor(), load=None, handle_signals=False)
    task = Task("demo/tiny", "Tiny", TaskKind.SOURCE, "class Model: ...", "tiny.py")
    asyncio.run(engine.start(task, config, tmp_path / "run", wiring))
    return tmp_path / "run"


def test_a_checkpoint_is_written_and_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["export", "--to", "openevolve", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["programs"], said["islands"], said["best"]) == (3, [3], "c0")
    assert (Path(said["path"]) / "metadata.json").is_file()
    assert main.run(["export", "--to", "openevolve", str(folder), "--out", str(folder.parent / "out")]) == 0
    assert "3 programs on 1 island, best c0" in capsys.readouterr().out
    assert (folder.parent / "out" / "checkpoints" / "checkpoint_2" / "programs" / "original.json").is_file()


def test_a_missing_extra_is_one_sentence(folder: Path) -> None:
    code = f"""
import sys
sys.modules["openevolve"] = None
from pike.cli import main
sys.exit(main.run(["export", "--to", "openevolve", {str(folder)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pike-torch[openevolve]" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "openevolve").exists()
