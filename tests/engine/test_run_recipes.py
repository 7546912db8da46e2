"""Runs that recipes write, or that start from recipes."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from engine_material import IDEAS, TASK, RuledJudge, answer, coa, config, events, wiring, write_script

from pike import engine, reporting
from pike.core.agent import Context, Proposal
from pike.core.errors import UserError
from pike.core.events import Admitted, Asked, Proposed, Told
from pike.core.step import Role
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, OnStage, Status
from pike.engine.external import batch, elsewhere
from pike.engine.run.seeding import SharedSeeds
from pike.reporting import summarise

SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, width, 3)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))

def get_inputs():
    return [torch.randn(1, 3, 8, 8)]

def get_init_inputs():
    return [4]
"""


async def test_recipes_need_no_model_and_the_best_file_says_how_to_build_it(tmp_path: Path) -> None:
    from pike.engine.output import best_file as bestfile
    from pike.engine.output import originals

    task = replace(TASK, source=SOURCE)
    seen = list[engine.Progress]()
    parts = wiring(load=originals.load, observer=seen.append)
    result = await engine.start(task, config(queries=12, concurrency=4), tmp_path / "run", parts)
    assert result.finished
    assert (result.asks_models, result.spend.queries, result.candidates) == (False, 0, seen[-1].candidates), (
        "no model, no query"
    )
    assert not any(progress.asks_models for progress in seen)
    assert seen[-1].candidates > 5 and seen[-1].most_candidates == 12
    assert summarise(tmp_path / "run").spend.queries == 0
    assert result.best is not None
    assert result.best.recipes
    assert len({event.candidate.recipes for event in events(tmp_path / "run") if isinstance(event, Proposed)}) > 5
    terms = bestfile.read(tmp_path / "run" / "best.py")
    assert terms.call == "(float32[1, 3, 8, 8])"
    assert terms.arguments() == (4,)
    assert terms.dtypes == "float32, int64"


async def test_the_strategy_of_recipes_costs_no_query_and_says_what_each_step_brought(tmp_path: Path) -> None:
    from pike.engine.output import originals

    task = replace(TASK, source=SOURCE)
    parts = wiring(load=originals.load)
    setup = config(queries=0, concurrency=3, strategy="recipes")
    result = await engine.start(task, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped, result.spend.queries) == (True, "exhausted", 0)
    tried = [one.recipes for one in result.recipe_history]
    assert len(set(tried)) == len(tried) == result.candidates > 5
    gains = [one.gained for one in result.recipe_history if one.gained]
    best = max(one.speedup or 0.0 for one in result.recipe_history)
    assert math.prod(gains) == pytest.approx(best)
    assert dict(result.declined)["cuda_graph"] == "CUDA graphs need an NVIDIA GPU"
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [tuple(one["recipes"]) for one in written["trail"]] == tried
    assert "CUDA graphs need an NVIDIA GPU" in reporting.write(tmp_path / "run").read_text()
    again = await engine.resume_run(tmp_path / "run", parts)
    assert (again.recipe_history, again.declined) == (result.recipe_history, result.declined)


async def test_the_strategy_of_recipes_ends_in_time_and_lets_go_of_what_is_being_judged(tmp_path: Path) -> None:
    class Composer:
        async def act(self, context: Context) -> Proposal:
            if context.step.role is Role.BRAINSTORM:
                return Proposal(ideas=("half", "compile"), text="tf32: no")
            source = f"# pike-instant: valid 5ms\n# step {context.step.id}\nclass ModelNew: ..."
            return Proposal(source, recipes=("half", f"number {context.step.id}"), expected_seconds=30.0)

    class Stuck(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            assert request.options.timeout_seconds == (90.0 if request.effort is Effort.SEARCH else 900.0)
            assert request.options.max_timing_seconds == (
                2.0 if request.effort is Effort.SEARCH else EvaluateOptions().max_timing_seconds
            )
            if request.effort is Effort.SEARCH and "# step 1\n" not in request.source:
                await asyncio.sleep(3600.0)
            return await super().evaluate(request, on_stage)

    setup = config(queries=0, concurrency=3, strategy="recipes", max_hours=1.0 / 3600.0)
    parts = wiring(executor=Stuck(), agents=dict.fromkeys(Role, Composer()))
    result = await engine.start(TASK, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped, result.spend.queries) == (True, "hours", 0)
    stuck = [event.failure for event in events(tmp_path / "run") if isinstance(event, Told) and event.failure]
    assert stuck == ["the time was over before its verdict"] * 3
    assert (result.best.id, result.declined) == ("c1", (("tf32", "no"),))
    replayed = config(f"replay:{tmp_path / 'run'}", queries=0, strategy="recipes")
    again = await engine.start(TASK, replayed, tmp_path / "again", wiring(executor=None))
    assert (again.best, again.recipe_history) == (result.best, result.recipe_history)


async def test_without_a_valid_candidate_what_is_being_judged_comes_home(tmp_path: Path) -> None:
    class Composer:
        async def act(self, context: Context) -> Proposal:
            source = f"# pike-instant: valid {5 + context.step.id}ms\nclass ModelNew: ..."
            return Proposal(source, recipes=(f"number {context.step.id}",))

    setup = config(queries=0, concurrency=2, strategy="recipes", max_hours=0.2 / 3600.0)
    parts = wiring(executor=engine.InstantExecutor(delay_seconds=1.0), agents=dict.fromkeys(Role, Composer()))
    result = await engine.start(TASK, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped) == (True, "hours")
    assert result.best is not None


async def test_valid_recipes_seed_the_library_free_of_queries(run, tmp_path: Path) -> None:
    from pike.engine.output import originals

    name = write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")])
    setup = config(name, queries=6, models={"seed_recipes": True})
    task = replace(TASK, source=SOURCE)
    parts = wiring(load=originals.load)
    result = await engine.start(task, setup, tmp_path / "run", parts)
    seen = events(tmp_path / "run")
    seeds = [event for event in seen if isinstance(event, Admitted)]
    assert seeds
    assert all(seed.evaluation.valid and seed.candidate.id.startswith("r-") for seed in seeds)
    assert len({seed.candidate.id for seed in seeds}) == len(seeds)
    first_ask = next(i for i, event in enumerate(seen) if isinstance(event, Asked))
    assert max(i for i, event in enumerate(seen) if isinstance(event, Admitted)) < first_ask
    assert result.spend.queries == 6
    asked_from = {event.step.seed for event in seen if isinstance(event, Asked)}
    assert asked_from & {seed.candidate.id for seed in seeds}

    again = await engine.start(
        task, config(f"replay:{tmp_path / 'run'}", queries=6), tmp_path / "again", wiring(executor=None)
    )
    assert (again.best, again.finished) == (result.best, True)


async def test_as_many_recipes_are_tried_as_seeds_as_the_setting_says(tmp_path: Path) -> None:
    from pike.engine.output import originals

    name = write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")])
    admitted = []
    for most in (0, 2, 12):
        setup = config(name, queries=1, models={"seed_recipes": True}, recipe_seeds=most)
        folder = tmp_path / str(most)
        await engine.start(replace(TASK, source=SOURCE), setup, folder, wiring(load=originals.load))
        admitted.append(len([event for event in events(folder) if isinstance(event, Admitted)]))
    none, few, many = admitted
    assert none == 0 and few in (1, 2) and many > 2, "some compositions are refused"


async def test_runs_that_share_seeds_judge_each_once_and_one_that_a_judge_lost_again(tmp_path: Path) -> None:
    from pike.engine.output import originals

    name, tried, lost = write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")]), list[str](), list[str]()

    def rule(request: EvaluationRequest) -> Evaluation | None:
        if request.effort is Effort.SEARCH:
            tried.append(request.source)
            if not lost:
                lost.append(request.source)
                return Evaluation(Status.INFRA_ERROR, "the judge died")
        return None

    parts = wiring(load=originals.load, executor=RuledJudge(rule), seeds=SharedSeeds())
    setup, folders = config(name, queries=1, models={"seed_recipes": True}), (tmp_path / "one", tmp_path / "two")
    await asyncio.gather(*(engine.start(replace(TASK, source=SOURCE), setup, each, parts) for each in folders))
    one, two = ({seed.candidate.source: seed for seed in admitted(each)} for each in folders)
    assert {**one, **two} == (one if len(one) > len(two) else two) and abs(len(one) - len(two)) <= 1
    assert len(one) > 1 and all(tried.count(source) == 1 + (source in lost) for source in {**one, **two})


class Crash(BaseException):
    """What ends a process."""


def crash(request: EvaluationRequest) -> None:
    raise Crash


async def dead_while_it_seeded(folder: Path, llm: str) -> list[Admitted]:
    """The seeds that a run admitted before it died."""
    from pike.engine.output import originals

    asked = count(1)
    dying = RuledJudge(lambda request: crash(request) if next(asked) == 3 else None)
    setup = config(llm, queries=2, concurrency=1, models={"seed_recipes": True})
    with pytest.raises(Crash):
        await engine.start(replace(TASK, source=SOURCE), setup, folder, wiring(load=originals.load, executor=dying))
    seeds = admitted(folder)
    assert seeds
    return seeds


def admitted(folder: Path) -> list[Admitted]:
    return [event for event in events(folder) if isinstance(event, Admitted)]


async def test_a_run_that_died_while_it_seeded_keeps_its_seeds_and_judges_the_others(tmp_path: Path) -> None:
    from pike.engine.output import originals

    kept = await dead_while_it_seeded(
        tmp_path / "run", write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")])
    )
    later = list[str]()
    parts = wiring(load=originals.load, executor=RuledJudge(lambda request: later.append(request.source)))
    result = await engine.resume_run(tmp_path / "run", parts)
    seeds = admitted(tmp_path / "run")
    assert result.finished and seeds[: len(kept)] == kept
    assert len({seed.candidate.id for seed in seeds}) == len(seeds)
    first_ask = later.index(next(e.candidate.source for e in events(tmp_path / "run") if isinstance(e, Proposed)))
    assert later[:first_ask] and not {seed.candidate.source for seed in kept} & set(later[:first_ask])


async def test_prompts_are_asked_from_the_seeds_that_are_there_without_a_judge(tmp_path: Path) -> None:
    from pike.engine.output import originals

    kept = await dead_while_it_seeded(tmp_path / "run", "by-hand")
    parts = wiring(load=originals.load, executor=RuledJudge(crash))
    questions = await batch.ask_runs(tmp_path / "run", parts)
    assert questions[""] and admitted(tmp_path / "run") == kept


async def test_a_run_whose_recipes_wait_keeps_no_candidate_of_another_back(tmp_path: Path) -> None:
    from pike.engine.output import originals

    early, ready, answers = tmp_path / "early", tmp_path / "ready", tmp_path / "answers"
    setup = config("by-hand", queries=2, concurrency=1, models={"seed_recipes": True})
    parts = wiring(load=originals.load, executor=RuledJudge(crash))
    with pytest.raises(Crash):
        await engine.start(replace(TASK, source=SOURCE), setup, early, parts)
    with pytest.raises(UserError, match="has not judged its recipes yet"):
        await elsewhere.pack_runs({"early": early}, tmp_path / "none.bundle", wiring(executor=None))
    await engine.start(TASK, config("by-hand", 1, 1, strategy="best-of-n"), ready, wiring())
    await batch.ask_runs(ready, wiring())
    answers.mkdir()
    (answers / "step-0.md").write_text(answer("valid 4ms", "x"))
    await batch.bundle_runs(ready, answers, tmp_path / "one.bundle", wiring(executor=None))
    both = {"early": early, "ready": ready}
    packed = await elsewhere.pack_runs(both, tmp_path / "two.bundle", wiring(executor=None))
    assert packed.candidates == {"ready": 1} and admitted(early) == []


async def test_compositions_share_compilers_caches_and_what_a_model_wrote_does_not(run, tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {"recipes": set(), "": set()}

    def note(request: EvaluationRequest) -> None:
        seen[request.caches].add(request.source)

    from pike.engine.output import originals

    name = write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")])
    setup = config(name, queries=2, models={"seed_recipes": True})
    parts = wiring(load=originals.load, executor=RuledJudge(note))
    result = await engine.start(replace(TASK, source=SOURCE), setup, tmp_path / "run", parts)
    assert result.finished and seen["recipes"] and seen[""]
    assert all("Written by PIKE's recipes" in source for source in seen["recipes"])
    assert not any("Written by PIKE's recipes" in source for source in seen[""])
    replayed = config(f"replay:{tmp_path / 'run'}", queries=2)
    shared: set[str] = set()
    again = RuledJudge(lambda request: shared.add(request.caches))
    await engine.start(replace(TASK, source=SOURCE), replayed, tmp_path / "again", wiring(executor=again))
    assert shared == {""}, "a recording is another's word"
