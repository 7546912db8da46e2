"""Several models of one role: who is asked is written down, and comes out the same again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_material import IDEAS, MIXED, TASK, coa, config, efa, events, wiring, write_script

from pike import engine
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Asked, QueryAnswered, QuerySent, RunStarted, Told, event_from_json, event_to_json
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.step import Role
from pike.core.verdict.evaluation import Evaluation
from pike.engine.run.configuration import resolve
from pike.engine.state.models import arms, make_strategy, model_names, pairs, require_own_models
from pike.engine.tools.estimate import estimate
from pike.search.bandit import OverModels


def two(folder: Path) -> tuple[str, str]:
    good = write_script(folder / "good.json", [IDEAS, coa("valid 2ms", "g"), efa("valid 3ms", "g")], model="good")
    weak = write_script(folder / "weak.json", [IDEAS, coa("build-error no", "w")], model="weak")
    return good, weak


def both(folder: Path, **more: Any) -> RunConfig:
    return replace(config(**more), llm=LlmConfig(coa=two(folder), efa=two(folder)[0]))


async def test_each_step_asks_the_model_that_it_names(tmp_path: Path) -> None:
    result = await engine.start(TASK, both(tmp_path, queries=12), tmp_path / "run", wiring())
    assert result.finished
    seen = events(tmp_path / "run")
    steps = {event.step.id: event.step for event in seen if isinstance(event, Asked)}
    named = Counter(step.model for step in steps.values() if step.role is Role.OPTIMISE)
    good, weak = two(tmp_path)
    assert set(named) == {good, weak}
    assert {step.model for step in steps.values() if step.role is Role.FIX} == {""}
    for event in seen:
        if isinstance(event, QuerySent):
            assert event.model == (steps[event.query.step_id].model or good)
        if isinstance(event, QueryAnswered):
            assert event.answer.model == ("weak" if steps[event.step_id].model == weak else "good")
    assert ("coa", good) in result.models
    assert ("coa", weak) in result.models
    assert result.flat()["models"]["coa"] == [good, weak]
    assert result.flat()["models"]["efa"] == good


async def test_a_resume_and_a_replay_choose_the_same_models(tmp_path: Path) -> None:
    chosen = both(tmp_path, queries=12)
    first = await engine.start(TASK, chosen, tmp_path / "run", wiring())
    again = await engine.start(
        TASK, config(f"replay:{tmp_path / 'run'}", queries=12), tmp_path / "again", wiring(executor=None)
    )
    twice = await engine.start(
        TASK, config(f"replay:{tmp_path / 'again'}", queries=12), tmp_path / "twice", wiring(executor=None)
    )
    assert (again.best, again.speedup) == (twice.best, twice.speedup) == (first.best, first.speedup)
    runs = [
        [event for event in events(tmp_path / name) if isinstance(event, Asked | Told)]
        for name in ("run", "again", "twice")
    ]
    assert runs[0] == runs[1] == runs[2]
    assert (await engine.resume_run(tmp_path / "run", wiring())).best == first.best


async def test_an_interrupted_run_goes_on_with_the_models_that_it_had_chosen(tmp_path: Path) -> None:
    class Dying(engine.InstantExecutor):
        async def evaluate(self, *arguments: Any) -> Evaluation:
            if len([event for event in events(tmp_path / "run") if isinstance(event, Told)]) > 4:
                raise RuntimeError("power cut")
            return await super().evaluate(*arguments)

    with pytest.raises(RuntimeError, match="power cut"):
        await engine.start(TASK, both(tmp_path, queries=12), tmp_path / "run", wiring(executor=Dying()))
    result = await engine.resume_run(tmp_path / "run", wiring())
    whole = await engine.start(TASK, both(tmp_path, queries=12), tmp_path / "whole", wiring())
    asked = [[event.step for event in events(tmp_path / name) if isinstance(event, Asked)] for name in ("run", "whole")]
    assert asked[0] == asked[1]
    assert result.best == whole.best


def test_one_model_is_asked_without_a_bandit(tmp_path: Path) -> None:
    name = write_script(tmp_path / "s.json", MIXED)
    assert not isinstance(make_strategy(config(name)), OverModels)
    assert isinstance(make_strategy(replace(config(), llm=LlmConfig(coa=(name, "scripted:x")))), OverModels)
    assert arms(LlmConfig(coa=name)) == {}


def test_roles_fall_back_on_each_other() -> None:
    llm = LlmConfig(coa=("a", "b"), efa="c", code=("d", "d"))
    assert model_names(llm) == {
        Role.BRAINSTORM: ("a", "b"),
        Role.OPTIMISE: ("a", "b"),
        Role.FIX: ("c",),
        Role.PLAN: ("a", "b"),
        Role.CODE: ("d",),
        Role.DEBUG: ("c",),
    }
    assert set(arms(llm)) == {Role.BRAINSTORM, Role.OPTIMISE, Role.PLAN}
    assert LlmConfig(coa="a").models(Role.DEBUG) == ("a",)
    assert pairs(llm, {Role.FIX, Role.OPTIMISE}) == (("coa", "a"), ("coa", "b"), ("efa", "c"))


@pytest.mark.parametrize(
    ("llm", "said"),
    [
        (LlmConfig(coa=("none", "openai:a")), "'none' cannot be one of several models of --llm"),
        (LlmConfig(coa=("by-hand", "foo:bar")), "'foo:bar' names no model"),
        (
            LlmConfig(coa="openai:a", efa=("openai:a", "replay:x")),
            "'replay:x' cannot be one of several models of --efa-llm",
        ),
        (LlmConfig(coa="replay:x", code="openai:a"), "leave out --code-llm"),
        (LlmConfig(coa="none", plan="openai:a"), "give both --plan-llm and --code-llm"),
        (LlmConfig(coa="openai:a", code="none"), "a model would plan and recipes carry it out"),
    ],
)
async def test_models_that_do_not_go_together_are_refused_before_anything_starts(
    llm: LlmConfig, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="(?i)" + said.replace("'", ".")):
        await engine.start(TASK, replace(config(), llm=llm), tmp_path / "run", wiring())
    assert not (tmp_path / "run").exists()


def test_recipes_may_plan_and_code_while_a_model_fixes() -> None:
    require_own_models(replace(config(), llm=LlmConfig(coa="none", efa="openai:a")))


def test_several_models_are_journalled_as_a_list(tmp_path: Path) -> None:
    begun = RunStarted(TASK, both(tmp_path), DeviceFacts("cpu", "x"), "1")
    kind, body = event_to_json(begun)
    assert body["config"]["llm"]["coa"] == list(two(tmp_path))
    assert body["config"]["llm"]["efa"] == two(tmp_path)[0]
    assert event_from_json(kind, body) == begun


def test_a_strategy_of_recipes_asks_no_model_whatever_was_given(tmp_path: Path) -> None:
    recipes = replace(both(tmp_path), strategy=StrategyConfig("recipes"))
    assert {name for names in model_names(resolve(recipes).llm).values() for name in names} == {"none"}
    assert estimate(TASK, recipes).usd == 0
    by_hand = estimate(TASK, config("by-hand", queries=50))
    assert by_hand.usd == 0 and by_hand.calls > 0 and not any("price" in said for said in by_hand.assumptions)
    replay = replace(recipes, llm=LlmConfig(coa=f"replay:{tmp_path}"))
    assert resolve(replay).llm == replay.llm
    assert resolve(both(tmp_path)).llm == both(tmp_path).llm


def test_a_strategy_may_ask_for_recipes_as_seeds(tmp_path: Path) -> None:
    seeded = replace(both(tmp_path), strategy=StrategyConfig("pike-b", {"recipe_seeds": True}))
    assert resolve(seeded).llm.seed_recipes
    assert resolve(seeded).llm.coa == both(tmp_path).llm.coa


def test_an_estimate_takes_the_mean_of_a_roles_models(tmp_path: Path) -> None:
    cheap = write_script(tmp_path / "a.json", MIXED, input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)
    dear = write_script(tmp_path / "b.json", MIXED, input_usd_per_mtok=3.0, output_usd_per_mtok=3.0)

    def usd(*names: str) -> float:
        found = estimate(TASK, replace(config(queries=50), llm=LlmConfig(coa=names))).usd
        assert found is not None
        return found

    assert usd(cheap, dear) == pytest.approx((usd(cheap) + usd(dear)) / 2)
    said = estimate(TASK, replace(config(queries=50), llm=LlmConfig(coa=(cheap, dear))))
    assert ("coa", cheap) in said.models
    assert ("coa", dear) in said.models
    assert any("equally often" in assumption for assumption in said.assumptions)


def test_an_estimate_counts_the_roles_that_the_strategy_asks(tmp_path: Path) -> None:
    name = write_script(tmp_path / "s.json", MIXED)
    plain = estimate(TASK, config(name, queries=100))
    assert [role for role, _ in plain.models] == ["iba", "coa", "efa"]
    assert plain.calls == 101
    bare = estimate(TASK, config(name, queries=100, strategy="pike-b:no-efa"))
    assert [role for role, _ in bare.models] == ["iba", "coa"]
    large = estimate(TASK, config(name, queries=30_000))
    assert large.calls == pytest.approx(30_001, abs=2)
