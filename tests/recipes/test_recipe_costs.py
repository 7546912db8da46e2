"""How long compositions take, which of them begin, and when a search has nothing left to gain."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from recipe_harness import CUDA, HALF, source_task

from pike.core.agent import Context, Proposal
from pike.core.step import Candidate, Role, Solution, Step
from pike.core.verdict.evaluation import Evaluation, Status, Timing
from pike.core.verdict.profile import Ceilings, Profile
from pike.recipes import RecipeAgent
from pike.recipes.registry import BY_NAME
from pike.recipes.search.costs import Costs, plain_seconds
from pike.recipes.search.evidence import at_the_floor, floor_ms
from pike.recipes.search.explored import Explored

TASK = source_task("class Model: ...")
QUICK, COMPILED, MEASURED = ("half", "cuda_graph"), ("half", "compiled_graph"), ("compiled_graph", "measured_kernels")
SECONDS = {"compiled_graph": 40.0, "measured_kernels": 100.0, "compile": 40.0}
STEP = Step(99, Role.OPTIMISE)


def judged(*recipes: str, seconds: float = 8.0, speedup: float = 2.0, profile: Profile | None = None) -> Solution:
    timing = Timing(2.0, 2.0 / speedup, speedup, (speedup, speedup), 10, 100, 0.0)
    verdict = Evaluation(Status.VALID, timing=timing, seconds=(("correct", seconds),), profile=profile)
    return Solution(Candidate("c", "...", recipes=recipes), verdict)


def context(left: float | None, *known: Solution) -> Context:
    return Context(TASK, STEP, CUDA, HALF, known=known, seconds_left=left)


def test_past_costs_of_the_run_correct_what_is_expected() -> None:
    assert Costs(SECONDS).expected(QUICK) == plain_seconds(QUICK, SECONDS) < Costs(SECONDS).expected(COMPILED)
    slow = Costs(SECONDS, [judged(*QUICK, seconds=3 * plain_seconds(QUICK, SECONDS))])
    assert slow.expected(COMPILED) == pytest.approx(3 * plain_seconds(COMPILED, SECONDS))
    refused = Solution(
        Candidate("c", "...", recipes=COMPILED), Evaluation(Status.BUILD_ERROR, seconds=(("build", 0.1),))
    )
    assert Costs(SECONDS, [refused]).expected(COMPILED) == plain_seconds(COMPILED, SECONDS), "it says nothing"


def test_what_would_come_too_late_does_not_begin() -> None:
    untried = {QUICK, COMPILED, MEASURED}
    assert Costs(SECONDS).late(context(None), [], untried) == set()
    assert Costs(SECONDS).late(context(100.0), [QUICK], untried) == {MEASURED}
    known = judged("half", seconds=24.0)
    assert Costs(SECONDS, [known]).late(context(100.0, known), [], untried) == {COMPILED, MEASURED}, "a slow machine"


def test_the_quickest_may_always_be_the_first() -> None:
    untried = {QUICK, COMPILED}
    assert Costs(SECONDS).late(context(1.0), [], untried) == {COMPILED}
    assert Costs(SECONDS).late(context(1.0), [QUICK], untried - {QUICK}) == {COMPILED}
    assert Costs(SECONDS).late(context(1.0, judged("half")), [], untried) == untried


def test_what_tunes_kernels_on_the_device_never_fills_a_wave() -> None:
    untried = {QUICK, COMPILED, MEASURED}
    costs = Costs(SECONDS)
    assert costs.late(context(10_000.0), [MEASURED, QUICK], untried) == {MEASURED}
    assert costs.late(context(10_000.0), [MEASURED, QUICK, QUICK, COMPILED], untried) == set()
    assert costs.late(context(10_000.0), [MEASURED], {MEASURED}) == set(), "nothing else is left"


def wave(left: float, count: int) -> list[Proposal]:
    """What so many steps at once are given, none of which has a verdict."""
    apply = ("half", "bf16", "fold_constants", "cuda_graph", "compiled_graph", "max_autotune", "measured_kernels")
    declined = {name: "" if name in apply else "no" for name in BY_NAME}
    gains = dict.fromkeys(BY_NAME, 0.2) | {"measured_kernels": 0.9, "max_autotune": 0.9, "compiled_graph": 0.9}
    seconds = {"compiled_graph": 30.0, "max_autotune": 130.0, "measured_kernels": 100.0}
    agent = RecipeAgent(lambda: Explored(declined, gains, {}, seconds))
    steps = [Step(number, Role.OPTIMISE, sample=number) for number in range(count)]
    return [asyncio.run(agent.act(replace(context(left), step=step))) for step in steps]


def tuned(proposal: Proposal) -> bool:
    return any(BY_NAME[name].tunes for name in proposal.recipes)


def test_a_first_wave_mixes_quick_compositions_with_slow_ones() -> None:
    first = wave(left=560.0, count=9)
    assert "cuda_graph" in first[0].recipes
    assert any("compiled_graph" in one.recipes for one in first[:3])
    assert 1 <= sum(map(tuned, first)) <= 3
    assert all(one.expected_seconds >= 8.0 for one in first)
    assert not any(map(tuned, wave(left=80.0, count=9))), "their verdicts would come after the end"


def test_a_search_at_the_floor_says_so_once_what_might_lower_it_was_tried() -> None:
    ceilings = Ceilings(bytes_per_second=1e12, operations_per_second=1e12)
    profile = Profile("torch profiler (cuda)", "", operations=10**9, least_bytes=10**6, ceilings=ceilings)
    assert floor_ms(profile) == pytest.approx(1.0)
    near = judged("half", "cuda_graph", speedup=1.9, profile=profile)
    assert "1.05 ms" in at_the_floor([near], {"half"})
    assert not at_the_floor([near], {"half", "pool_first"}), "fewer operations may be enough"
    assert not at_the_floor([judged("half", speedup=1.5, profile=profile)], {"half"})
    assert not at_the_floor([judged("half", speedup=1.9)], {"half"}), "the floor is not known"
    declined = {name: "" if name in ("half", "cuda_graph", "fold_constants") else "no" for name in BY_NAME}
    agent = RecipeAgent(lambda: Explored(declined, dict.fromkeys(BY_NAME, 0.1), {}))
    found = asyncio.run(agent.act(context(None, near)))
    assert found.exhausted and "nothing is left to gain" in found.failure


def test_an_exploration_that_was_kept_without_costs_is_read() -> None:
    old = {"declined": {"half": ""}, "gains": {"half": 0.1}, "adapted": {}}
    assert Explored.of(old).seconds == {}
    new = Explored({"half": ""}, {"half": 0.1}, {}, {"half": 2.0})
    assert Explored.of(new.record) == new
