"""What a configuration means once it is made whole: without its file, and with what a strategy asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import MIXED, TASK, config, events, wiring, write_script
from stark_material import code, debug, plan

from pike import engine
from pike.core.errors import UserError
from pike.core.events import Asked, RunStarted
from pike.core.settings.config import LlmConfig, RunConfig
from pike.core.settings.merging import merge
from pike.core.step import Role
from pike.engine.run.configuration import resolve


def test_a_named_strategy_needs_its_file_no_more() -> None:
    chosen = merge(
        RunConfig(),
        {
            "strategy": {"preset": "mine", "selection": {"k": 2}},
            "strategies": {"mine": {"base": "metr", "pacing": {"in_flight": 3}}},
        },
    )
    resolved = resolve(chosen)
    assert (resolved.strategy.preset, resolved.strategy.label, resolved.strategies) == ("metr", "mine", {})
    assert (resolved.strategy.options["selection"]["k"], resolved.strategy.options["pacing"]["in_flight"]) == (2, 3)
    assert resolve(resolved) == resolved


def test_tables_of_later_layers_change_single_options() -> None:
    first = merge(RunConfig(), {"strategies": {"mine": {"base": "metr", "pacing": {"in_flight": 3}}}})
    second = merge(first, {"strategies": {"mine": {"pacing": {"in_flight": 5}}}, "strategy": {"preset": "mine"}})
    assert resolve(second).strategy.options["pacing"]["in_flight"] == 5
    assert first.strategies["mine"]["pacing"]["in_flight"] == 3


def test_recipes_write_whatever_models_there_are_but_a_replay_stays_one() -> None:
    chosen = merge(RunConfig(llm=LlmConfig(coa="openai:x", efa="openai:y")), {"strategy": {"preset": "recipes"}})
    resolved = resolve(chosen).llm
    assert (resolved.coa, resolved.efa) == ("none", "")
    replay = merge(RunConfig(llm=LlmConfig(coa="replay:somewhere")), {"strategy": {"preset": "recipes"}})
    assert resolve(replay).llm.coa == "replay:somewhere"


def test_a_strategy_may_start_from_recipes() -> None:
    assert not resolve(RunConfig()).llm.seed_recipes
    assert resolve(merge(RunConfig(), {"strategy": {"recipe_seeds": True}})).llm.seed_recipes


def test_an_unknown_strategy_is_offered_the_nearest_name_among_the_users_own_too() -> None:
    chosen = merge(RunConfig(), {"strategy": {"preset": "minee"}, "strategies": {"mine": {"base": "metr"}}})
    with pytest.raises(UserError, match="did you mean 'mine'"):
        resolve(chosen)


async def test_a_run_of_a_named_strategy_is_read_and_replayed_without_its_file(tmp_path: Path) -> None:
    name = write_script(tmp_path / "answers.json", MIXED)
    named = merge(
        config(name, queries=12),
        {
            "strategy": {"preset": "mine"},
            "strategies": {"mine": {"base": "stark:search-only", "pacing": {"in_flight": 3}, "inspiration": "none"}},
        },
    )
    first = await engine.start(TASK, named, tmp_path / "run", wiring())
    assert (first.strategy, first.spend.queries) == ("mine", 12)
    assert (await engine.resume_run(tmp_path / "run", wiring())).strategy == "mine"
    journalled = next(event for event in events(tmp_path / "run") if isinstance(event, RunStarted)).config
    assert journalled.strategies == {}
    again = replace(journalled, llm=replace(journalled.llm, coa=f"replay:{tmp_path / 'run'}"))
    assert (await engine.start(TASK, again, tmp_path / "again", wiring(executor=None))).speedup == first.speedup


@pytest.mark.parametrize("preset", ["best-of-n", "reflexion", "metr", "stark:search-only"])
async def test_strategies_run_in_the_real_engine(tmp_path: Path, preset: str) -> None:
    name = write_script(tmp_path / "answers.json", MIXED)
    result = await engine.start(
        TASK, config(name, queries=14, concurrency=4, strategy=preset), tmp_path / "run", wiring()
    )
    assert (result.strategy, result.spend.queries, result.finished) == (preset, 14, True)
    assert result.best is not None


async def test_stark_as_published_runs_in_the_real_engine(tmp_path: Path) -> None:
    answers = [plan(), *[code(f"valid {9 - step}ms" if step % 3 else "build-error x", step=step) for step in range(12)]]
    name = write_script(tmp_path / "answers.json", [*answers, debug("valid 7ms")])
    result = await engine.start(TASK, config(name, queries=12, strategy="stark"), tmp_path / "run", wiring())
    asked = [event.step for event in events(tmp_path / "run") if isinstance(event, Asked)]
    assert {step.role for step in asked} >= {Role.PLAN, Role.CODE}
    assert all(step.plan for step in asked if step.role is not Role.PLAN)
    assert result.best is not None
