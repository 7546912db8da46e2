"""The curve of what a search has over time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import anytime
import pytest

from pike import engine
from pike.core.settings.budget import Budget
from pike.core.settings.config import EngineConfig, RunConfig, StrategyConfig
from pike.core.task import Task, TaskKind

ROW = anytime.Row("a", "cpu", "same", 2.0, "command", 150.0, 5, 20.0, ((20.0, 2.0), (90.0, 4.0)), 3.9)
NOTHING = replace(ROW, gains=((30.0, 0.97),), first_valid=30.0, final=None)


def test_a_share_is_that_of_the_last_log_speedup() -> None:
    assert [ROW.share(seconds) for seconds in (10.0, 20.0, 89.0, 90.0, 600.0)] == [0.0, 0.5, 0.5, 1.0, 1.0]
    assert (NOTHING.best(1e9), NOTHING.share(29.0), NOTHING.share(30.0)) == (1.0, 0.0, 1.0)


def test_the_table_and_the_figure_are_over_all_searches() -> None:
    text = anytime.summary([ROW, NOTHING])
    assert "| 1 min | 1.414x | 75% | 1 of 2 |" in text
    assert "| 2 min | 2.000x | 100% | 2 of 2 |" in text
    assert "median 25 s, last 30 s; ended at most 30 s after the limit" in text
    assert anytime.summary([]) == "no run"
    drawn = anytime.figure([ROW, NOTHING], "a machine & its name")
    assert drawn.count("<polyline") == 3
    assert "a machine &amp; its name" in drawn


def test_a_pattern_stands_for_tasks_of_a_suite() -> None:
    assert "demo/resnet18" in anytime.matching("demo/*")
    assert anytime.matching("level3-pike/9_*:small") == ["level3-pike/9_ResNet18:small"]
    assert anytime.matching("demo/resnet18:small") == ["demo/resnet18:small"]


def test_a_run_that_was_only_read_begins_with_its_journal(tmp_path: Path) -> None:
    task = Task("demo/tiny", "Tiny", TaskKind.SOURCE, "class Model: ...", "tiny.py")
    models = {"coa": f"scripted:{tmp_path / 's.json'}"}
    (tmp_path / "s.json").write_text('[{"text": "```python\\n# pike-instant: valid 5ms\\nclass ModelNew: ...\\n```"}]')
    config = RunConfig("tiny", StrategyConfig("best-of-n"), budget=Budget(1), engine=EngineConfig(concurrency=1))
    config = replace(config, llm=replace(config.llm, **models))
    parts = engine.Wiring(executor=engine.InstantExecutor(), load=None, handle_signals=False)
    asyncio.run(engine.start(task, config, tmp_path / "run", parts))
    (row,) = [anytime.row_of(folder) for folder in anytime.folders([str(tmp_path)])]
    assert (row.task, row.began, row.judged, row.final) == ("demo/tiny", "journal", 1, pytest.approx(2.0))
    assert row.first_valid is not None and row.gains == ((row.first_valid, 2.0),)
