"""A task, scripts and a way to run them without models or judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pike import engine
from pike.core.budget import Budget
from pike.core.config import EngineConfig, LlmConfig, RunConfig, StrategyConfig
from pike.core.events import Entry, Event
from pike.core.task import Task, TaskKind
from pike.store import read

TASK = Task("demo/tiny", "Tiny", TaskKind.SOURCE, "class Model: ...", "tiny.py")


def answer(instant: str, mark: str) -> str:
    """A model's answer whose candidate gets the verdict `instant`."""
    return f"Here:\n```python\nimport torch\n# pike-instant: {instant}\nclass ModelNew(torch.nn.Module):\n    mark = {mark!r}\n```"


def coa(instant: str, mark: str, **more: Any) -> dict[str, Any]:
    return {"role": "coa", "text": answer(instant, mark), **more}


def efa(instant: str, mark: str, **more: Any) -> dict[str, Any]:
    return {"role": "efa", "text": answer(instant, mark), **more}


IDEAS = {"role": "iba", "text": "1. fuse everything\n2. use half precision\n3. capture a graph"}
MIXED = [
    IDEAS,
    *[coa(f"valid {3 + i}ms final {12 - 2 * i}ms" if i % 3 else "build-error boom", f"coa {i}") for i in range(7)],
    *[efa(f"valid {2 + i}ms final {10.5 - 1.5 * i}ms" if i % 2 else "wrong-output off", f"efa {i}") for i in range(5)],
]
"""A model that is right about two times in three; what is fastest in the search is not fastest at the end."""


def write_script(path: Path, answers: list[dict[str, Any]], **top: Any) -> str:
    """A script file, as the name of a model."""
    path.write_text(json.dumps({"model": "tester", **top, "answer": answers}))
    return f"scripted:{path}"


def config(llm: str = "none", queries: int = 20, concurrency: int = 1, **more: Any) -> RunConfig:
    budget = Budget(queries, more.pop("usd", None), more.pop("tokens", None))
    models = LlmConfig(coa=llm, **more.pop("models", {}))
    strategy = StrategyConfig(more.pop("strategy", "pike-b"))
    return RunConfig("tiny", strategy, llm=models, budget=budget, engine=EngineConfig(concurrency=concurrency, **more))


def wiring(**parts: Any) -> engine.Wiring:
    return engine.Wiring(**{"executor": engine.InstantExecutor(), "load": None, "handle_signals": False, **parts})


def events(folder: Path) -> list[Event]:
    return [entry.event for entry in read(folder)]


def entries(folder: Path) -> list[Entry]:
    return list(read(folder))
