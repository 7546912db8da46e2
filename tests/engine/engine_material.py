"""A task, scripts and a way to run them without models or judges."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pike import engine
from pike.core.device import DeviceFacts
from pike.core.events import Event, JournalEntry
from pike.core.settings.budget import Budget
from pike.core.settings.config import EngineConfig, LlmConfig, RunConfig, StrategyConfig
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, OnStage
from pike.engine.output import originals
from pike.recipes.search.explored import Explored, explore, problem_of
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


class ExplorerHere:
    """Explores in this process, one task after the other, without a limit of time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def explore(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> Explored:
        with self._lock:
            return explore(problem_of(originals.load(task).reference, device, options))

    def close(self) -> None:
        pass


def wiring(**parts: Any) -> engine.Wiring:
    fakes = {"executor": engine.InstantExecutor(), "load": None, "explorer": ExplorerHere()}
    return engine.Wiring(**{**fakes, "handle_signals": False, **parts})


class RuledJudge(engine.InstantExecutor):
    """The instant judge; a rule sees every request, and may give the verdict itself or raise."""

    def __init__(self, rule: Callable[[EvaluationRequest], Evaluation | None]) -> None:
        super().__init__()
        self._rule = rule

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        return self._rule(request) or await super().evaluate(request, on_stage)


def events(folder: Path) -> list[Event]:
    return [entry.event for entry in read(folder)]


def entries(folder: Path) -> list[JournalEntry]:
    return list(read(folder))
