"""Campaigns without models or judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine_material import IDEAS, coa, efa, write_script

from pike import engine
from pike.core.comparison.campaign import CampaignFile
from pike.core.errors import UserError
from pike.core.verdict.evaluation import EvaluationRequest
from pike.engine.schedule.campaign import CampaignWiring, start_campaign
from pike.engine.schedule.plan import make_plan
from pike.reporting.campaign import CampaignFigures

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.{name}(x)


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""
VARYING = [
    IDEAS,
    *[
        coa(f"valid {2 + 5 * i % 13}ms final {3 + 5 * i % 13}ms" if i % 3 else "build-error boom", f"coa {i}")
        for i in range(31)
    ],
    *[efa(f"valid {1 + 7 * i % 11}ms" if i % 2 else "wrong-output off", f"efa {i}") for i in range(17)],
]
TIMES = {"seconds", "sessions", "unanswered_usd", "at_seconds", "folder"}
"""What differs between two campaigns that came to the same."""


def task(folder: Path, name: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(SOURCE.format(name=name))
    return str(path)


def layer(folder: Path, llm: str = "", **campaign: Any) -> dict[str, Any]:
    """The configuration of 2 tasks x 2 strategies x 2 repeats."""
    run = {
        "budget": {"queries": campaign.pop("each", 20)},
        "engine": {"concurrency": campaign.pop("in_flight", 1)},
        "llm": {"coa": llm or write_script(folder / "script.json", VARYING, **campaign.pop("script", {}))},
    }
    given = {
        "tasks": [task(folder, "relu"), task(folder, "tanh")],
        "contenders": [
            "pike-b",
            {"name": "mine", "base": "pike-b", "repair": {"attempts": 1}, "max_output_tokens": 400},
        ],
        "repeats": 2,
        "concurrency": 3,
        "query_cuts": [5, 10],
        **campaign,
    }
    return {"campaign": given, **run}


def wiring(**parts: Any) -> CampaignWiring:
    return CampaignWiring(**{"executor": engine.InstantExecutor(), "load": None, "handle_signals": False, **parts})


async def begin(folder: Path, config: dict[str, Any], **parts: Any) -> CampaignFigures:
    return await start_campaign(make_plan(CampaignFile().put(config)), folder, wiring(**parts))


def written(folder: Path) -> Any:
    """`campaign.json` without what may differ."""
    return _stripped(json.loads((folder / "campaign.json").read_text()))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(item) for key, item in value.items() if key not in TIMES}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def speedups(figures: CampaignFigures) -> dict[tuple[str, str, int], float | None]:
    return {(cell.task, cell.contender, cell.repeat): cell.speedup for cell in figures.cells}


class Refusing(engine.InstantExecutor):
    """A judge that cannot run one task's original, which the preflight finds out."""

    def __init__(self, task_id: str) -> None:
        super().__init__()
        self.task_id = task_id

    async def preflight(self, request: EvaluationRequest) -> float | None:
        if request.task.id == self.task_id:
            raise UserError(f"Task {self.task_id}: its original fails")
        return 3.0


def queries_used(figures: CampaignFigures) -> Iterator[int]:
    return (cell.run.spend.queries if cell.run else 0 for cell in figures.cells)
