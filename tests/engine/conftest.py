"""Start a run without models or judges."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from engine_material import TASK, config, wiring, write_script

from pike import engine

Run = Callable[..., Coroutine[Any, Any, engine.RunResult]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Start a run: `await run(answers, folder="a", queries=20, ...)`."""

    async def start(answers: list[dict[str, Any]], folder: str = "run", **more: Any) -> engine.RunResult:
        parts = more.pop("parts", {})
        top = more.pop("script", {})
        name = write_script(tmp_path / f"{folder}.json", answers, **top)
        return await engine.start(TASK, config(name, **more), tmp_path / folder, wiring(**parts))

    return start
