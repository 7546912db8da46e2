"""The campaign of published tasks that coding agents answered, replayed without a model or a device.

The journals are those of docs/experiments/2026-11-26-h100-first-true-campaign.md; where they held the
text of a published task, a line of comment stands.
"""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import events, wiring

from pike import engine
from pike.core.events import Asked, Event, Told
from pike.core.settings.config import LlmConfig
from pike.engine.state.replay import record_of
from pike.engine.state.resume import read_state

ASSET = Path(__file__).parent / "assets" / "true_campaign.tar.xz"


def runs() -> list[str]:
    with tarfile.open(ASSET) as packed:
        return sorted({name.partition("/")[0] for name in packed.getnames()})


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    with tarfile.open(ASSET) as packed:
        packed.extractall(folder, filter="data")
    return folder


def decisions(folder: Path) -> list[Event]:
    return [event for event in events(folder) if isinstance(event, Asked | Told)]


@pytest.mark.parametrize("name", runs())
async def test_a_replay_of_a_real_run_asks_and_learns_the_same(journals: Path, tmp_path: Path, name: str) -> None:
    run = journals / name
    started = record_of(run).started
    models = LlmConfig(coa=f"replay:{run}", seed_recipes=started.config.llm.seed_recipes)
    again = replace(started.config, llm=models, engine=replace(started.config.engine, baselines=()))
    result = await engine.start(started.task, again, tmp_path / "again", wiring(executor=None))
    assert result.finished and result.spend.queries == started.config.budget.queries
    assert decisions(tmp_path / "again") == decisions(run)
    assert read_state(tmp_path / "again").finished.best == read_state(run).finished.best
