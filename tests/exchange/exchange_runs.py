"""Runs that need neither a model nor a judge."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from foreign_runs import TASK

from pike import engine
from pike.core.settings.budget import Budget
from pike.core.settings.config import EngineConfig, LlmConfig, RunConfig, StrategyConfig
from pike.core.task import Task, TaskKind


def answer(role: str, instant: str, mark: str) -> dict[str, str]:
    code = f"import torch\n# pike-instant: {instant}\nclass ModelNew(torch.nn.Module):\n    mark = {mark!r}\n"
    return {"role": role, "text": f"Here:\n```python\n{code}```"}


ANSWERS = [
    answer("coa", "valid 4ms final 5ms", "first"),
    answer("coa", "build-error no", "second"),
    answer("efa", "valid 2ms final 2.5ms", "third"),
]


def parts(folder: Path, answers: list[dict[str, str]], queries: int) -> tuple[Task, RunConfig, dict[str, Any]]:
    """Task, configuration and wiring of a run of these answers in `folder`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    script = folder.parent / f"{folder.name}.json"
    script.write_text(json.dumps({"model": "tester", "answer": answers}))
    models, budget = LlmConfig(coa=f"scripted:{script}"), Budget(queries)
    config = RunConfig("tiny", StrategyConfig("pike-b:no-iba"), models, budget, engine=EngineConfig(concurrency=1))
    wiring = {"executor": engine.InstantExecutor(), "load": None, "handle_signals": False}
    return Task("level3/8_Tiny", "Tiny", TaskKind.SOURCE, TASK, "8_Tiny.py"), config, wiring


def make_run(folder: Path, answers: list[dict[str, str]], queries: int) -> Path:
    """A run of these answers in `folder`."""
    task, config, wiring = parts(folder, answers, queries)
    asyncio.run(engine.start(task, config, folder, engine.Wiring(**wiring)))
    return folder
