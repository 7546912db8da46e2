"""Runs that real models answered, replayed without a model or a device.

`true_campaign` holds the published tasks that coding agents answered
(docs/experiments/2026-11-26-h100-first-true-campaign.md); where its journals held the text of a
published task, a line of comment stands. `local_model` holds the three runs of a small model behind a
server of this machine (docs/experiments/2026-11-26-cpu-local-model.md). Two of the gallery's searches come
from the archives of their campaigns.
"""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import events, wiring

from pike import engine
from pike.api.outputs import report
from pike.core.events import Asked, Event, Judged, QueryAnswered, Told
from pike.core.settings.config import LlmConfig
from pike.core.verdict.evaluation import Effort
from pike.engine.state.replay import record_of
from pike.engine.state.resume import read_state

ASSETS = sorted((Path(__file__).parent / "assets").glob("*.tar.xz"))
LOCAL = "local_model"
GALLERY = Path(__file__).parents[2] / "benchmarks" / "gallery"
SEARCHES = {"half": "level3-pike-49--pike-x", "same": "level5-5--pike-x"}


def runs(*names: str) -> list[str]:
    """Every run of the assets with these names, all without one, as `asset/run`."""
    found = set()
    for asset in ASSETS:
        stem = asset.name.partition(".")[0]
        with tarfile.open(asset) as packed:
            found |= {f"{stem}/{name.partition('/')[0]}" for name in packed.getnames() if stem in names or not names}
    return sorted(found)


def searches() -> list[str]:
    """The gallery's searches that are replayed, by their folders in the archives."""
    found = set()
    for stem, name in SEARCHES.items():
        with tarfile.open(GALLERY / f"{stem}.tar.xz") as packed:
            found |= {"/".join(one.split("/")[:3]) for one in packed.getnames() if f"/{name}" in one}
    return sorted(found)


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    for asset in ASSETS:
        with tarfile.open(asset) as packed:
            packed.extractall(folder / asset.name.partition(".")[0], filter="data")
    for stem in SEARCHES:
        with tarfile.open(GALLERY / f"{stem}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
    return folder


def decisions(folder: Path) -> list[Event]:
    return [event for event in events(folder) if isinstance(event, Asked | Told)]


def verdicts(folder: Path) -> dict[str, tuple[str, str]]:
    """What the search found of each candidate, and why it was refused."""
    judged = (event for event in events(folder) if isinstance(event, Judged) and event.effort is Effort.SEARCH)
    return {event.candidate_id: (event.evaluation.status, event.evaluation.reason) for event in judged}


@pytest.mark.parametrize("name", [*runs(), *searches()])
async def test_a_replay_of_a_real_run_asks_judges_and_learns_the_same(
    journals: Path, tmp_path: Path, name: str
) -> None:
    run, again = journals / name, tmp_path / "again"
    started, ended = record_of(run).started, read_state(run)
    models = LlmConfig(coa=f"replay:{run}", seed_recipes=started.config.llm.seed_recipes)
    setup = replace(started.config, llm=models, engine=replace(started.config.engine, baselines=()))
    result = await engine.start(started.task, setup, again, wiring(executor=None))
    assert result.finished and result.spend.queries == ended.accounts.spend.queries
    assert decisions(again) == decisions(run)
    assert verdicts(again) == verdicts(run)
    assert read_state(again).finished.best == ended.finished.best


@pytest.mark.parametrize("name", runs(LOCAL))
def test_a_run_of_a_local_model_is_free_and_its_page_names_what_came_instead_of_candidates(
    journals: Path, name: str
) -> None:
    run = journals / name
    answers = [event.answer for event in events(run) if isinstance(event, QueryAnswered)]
    assert answers and {answer.usd for answer in answers} == {0.0}
    assert all(answer.input_tokens > 500 and 0 < answer.output_tokens <= 400 for answer in answers)
    refused = [reason for _, reason in verdicts(run).values() if reason]
    nothing = [event.failure for event in events(run) if isinstance(event, Told) and event.failure]
    page = report(run).read_text()
    assert refused + nothing and all(why in page for why in refused + nothing)
