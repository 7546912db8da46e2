"""The simulator: pure, the same for the same seed, independent of the order of arrival, and within its own rules."""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Outcome, Role, Scope, Step
from pike.simulate import (
    Conditions,
    Parameters,
    SimulatedRun,
    StudyCut,
    Team,
    World,
    asks_models,
    fitted,
    geomean,
    sample,
    simulate,
    suite,
)
from pike.simulate.parameters import CHEAP, STRONG
from pike.simulate.programs import SimulatedProgram, repair

PRESETS = [preset.name for preset in search.presets() if asks_models(preset.name)]
NUMBERS = Parameters()
TASKS = suite(NUMBERS, 10)


def simulated(
    preset: str = "pike-b", queries: int = 80, task: int = 7, repeat: int = 0, **more: object
) -> SimulatedRun:
    conditions = Conditions(StrategyConfig(preset), queries, **more)  # type: ignore[arg-type]
    return simulate(conditions, TASKS[task], repeat, NUMBERS)


def world(task: int = 7, **numbers: object) -> World:
    return World(replace(NUMBERS, **numbers), TASKS[task], Team(STRONG), 0)  # type: ignore[arg-type]


def gains(found: SimulatedRun) -> dict[str, float]:
    return {name: program.gain for name, program in found.world.programs.items()}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_runs_to_its_budget_and_never_passes_the_ceiling(preset: str) -> None:
    for task in (0, 5, 9):
        found = simulated(preset, task=task, recipe_seeds=task == 5)
        assert found.points[-1].queries >= 79
        assert max(gains(found).values()) <= TASKS[task].ceiling + 1e-9
        assert {point.candidate for point in found.points if point.candidate} <= set(found.world.programs)


def test_the_same_seed_gives_the_same_run_and_another_one_does_not() -> None:
    one, same, other = simulated(), simulated(), simulated(repeat=1)
    assert (gains(one), one.points, one.gain()) == (gains(same), same.points, same.gain())
    assert gains(one) != gains(other)


def test_the_run_is_the_same_in_every_process() -> None:
    code = (
        "from pike.core.settings.config import StrategyConfig\n"
        "from pike.simulate import *\n"
        "p = fitted(); print(simulate(Conditions(StrategyConfig('pike-b'), 40), suite(p, 3)[1], 5, p).gain())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    }
    assert len(said) == 1


def test_reads_no_clock_and_no_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the simulator is pure")

    for module, name in ((time, "time"), (time, "monotonic"), (time, "perf_counter"), (random, "random")):
        monkeypatch.setattr(module, name, refuse)
    simulated(queries=30)


def test_what_a_step_brings_does_not_depend_on_what_else_is_in_flight() -> None:
    def answers(concurrency: int) -> dict[tuple[object, ...], object]:
        problem, found = world(), {}

        def answer(step: Step) -> Outcome:
            answered = problem.answer(step)
            place = (step.role, step.round, step.sample, step.attempt)
            found[place] = (answered.outcome.usd, answered.program and answered.program.gain)
            return answered.outcome

        search.drive(search.make(StrategyConfig("pike-b"), Budget(120), 0), answer, concurrency=concurrency)
        return found

    assert answers(1) == answers(7)


def test_the_quickest_step_in_flight_ends_first() -> None:
    """With ten in flight outcomes overtake each other; with one they cannot."""
    order = [point.candidate for point in simulated(concurrency=10, task=4).points if point.candidate]
    assert order != sorted(order, key=lambda name: int(name[1:]))
    order = [point.candidate for point in simulated(concurrency=1, task=4).points if point.candidate]
    assert order == sorted(order, key=lambda name: int(name[1:]))


def test_a_repair_finds_less_later_in_stubborn_programs_and_by_a_cheap_model() -> None:
    def share(stubborn: float = 0.0, attempt: int = 1, model: object = STRONG) -> float:
        rng, failing = random.Random(1), SimulatedProgram(1.0, 2.0, right=False, boldness=0.5, stubborn=stubborn)
        tries = [repair(rng, Parameters(), failing, attempt, model=model, planned=False) for _ in range(2000)]  # type: ignore[arg-type]
        assert all(each.gain <= failing.gain and each.plateau == failing.plateau for each in tries)
        return statistics.fmean(each.valid for each in tries)

    assert share() > share(attempt=5) + 0.05
    assert share() > share(stubborn=2.0) + 0.2
    assert share() > share(model=CHEAP) + 0.05


def test_a_chain_of_failing_repairs_stays_a_program_that_can_be_timed() -> None:
    rng, failing = random.Random(1), SimulatedProgram(-0.5, 2.0, compiles=False, stubborn=50.0)
    for attempt in range(1, 3000):
        failing = repair(rng, Parameters(), failing, attempt, model=STRONG, planned=False)
    assert not failing.valid
    assert math.exp(failing.gain) >= 0.0009


def test_a_program_is_tweaked_up_to_its_plateau_and_only_rewritten_beyond() -> None:
    numbers = Parameters()
    rewritten = {}
    for scope in Scope:
        problem = World(numbers, TASKS[9], Team(STRONG), 0)
        problem.programs["seed"] = SimulatedProgram(0.1, 0.2)
        for sample_ in range(400):
            problem.answer(Step(sample_, Role.OPTIMISE, sample=sample_, seed="seed", scope=scope))
        made = [program for name, program in problem.programs.items() if name not in (ORIGINAL, "seed")]
        tweaked = [program for program in made if program.plateau == 0.2]
        assert max(program.gain for program in tweaked) <= 0.2
        assert max(program.gain for program in made) > 0.2
        rewritten[scope] = len(made) - len(tweaked)
    assert rewritten[Scope.TWEAK] < rewritten[Scope.ANY] < rewritten[Scope.REWRITE]


def test_an_inspiration_can_be_taken_over_and_makes_steps_careful() -> None:
    problem = world(9)
    problem.programs |= {"seed": SimulatedProgram(0.1, 0.2), "better": SimulatedProgram(0.8, 1.0)}
    plain, shown = (
        [
            problem.answer(Step(0, Role.OPTIMISE, sample=number, seed="seed", inspirations=names)).program
            for number in range(600)
        ]
        for names in ((), ("better",))
    )
    assert not any(program.plateau == 1.0 for program in plain if program)
    assert any(program.plateau == 1.0 for program in shown if program)
    assert statistics.fmean(p.boldness for p in shown if p) < statistics.fmean(p.boldness for p in plain if p)


def test_stark_is_answered_role_by_role() -> None:
    problem = world()
    plan = problem.answer(Step(0, Role.PLAN)).outcome
    assert plan.text and plan.candidate is None
    written = [problem.answer(Step(i, Role.CODE, sample=i, plan=plan.text)).outcome for i in range(1, 80)]
    assert all(outcome.candidate and outcome.candidate.plan == plan.text for outcome in written)
    failing = next(o.candidate.id for o in written if o.candidate and o.evaluation and not o.evaluation.valid)
    mended = problem.answer(Step(99, Role.DEBUG, failing=failing, attempt=1, plan=plan.text)).outcome
    assert mended.candidate and problem.programs["c99"].plateau == problem.programs[failing].plateau


def test_the_cheap_model_costs_less_where_the_preset_or_the_step_asks_for_it() -> None:
    plain, cheap = simulated("pike-b", 150), simulated("pike-b:cheap-efa", 150)
    assert cheap.points[-1].usd < 0.85 * plain.points[-1].usd
    several = simulated("pike-b", 150, models={Role.OPTIMISE: ("strong", "cheap"), Role.FIX: ("cheap", "strong")})
    assert several.points[-1].usd < plain.points[-1].usd


def test_recipes_are_there_before_the_first_query() -> None:
    task = next(index for index, each in enumerate(TASKS) if each.recipes)
    best = max(gain for gain, _ in TASKS[task].recipes)
    assert simulated(task=task, queries=20, recipe_seeds=True).gain(queries=0) == pytest.approx(best, abs=0.1)
    assert simulated(task=task, queries=20).gain(queries=0) == 0.0


def test_a_budget_cut_counts_only_what_was_known_by_then() -> None:
    found = simulated(queries=200)
    by_queries = [found.observed(queries) for queries in range(0, 201, 10)]
    assert by_queries == sorted(by_queries) and by_queries[-1] == found.observed() > by_queries[0] == 0.0
    assert found.observed(usd=0.0) == 0.0 and found.observed(usd=1e9) == found.observed()


def test_the_luckiest_measurement_of_a_search_is_better_than_the_program() -> None:
    loud = replace(NUMBERS, judge=replace(NUMBERS.judge, search_noise=0.2))
    found = sample(Conditions(StrategyConfig("pike-b"), 100), range(3), (StudyCut(),), loud, 10)
    assert statistics.fmean(each.observed[0] - each.gains[0] for each in found) > 0.05


def test_only_the_best_few_of_the_search_are_measured_again() -> None:
    """A loud clock hides the truly best among hundreds, and what is not a finalist is not reported."""
    loud = replace(NUMBERS, judge=replace(NUMBERS.judge, search_noise=0.5))
    found = simulate(Conditions(StrategyConfig("pike-b"), 200), TASKS[7], 0, loud)
    valid = sorted((point for point in found.points if point.candidate), key=lambda point: -point.observed)
    finals = [found.world.final(point.candidate) for point in valid]
    assert found.gain() == pytest.approx(max(0.0, *finals[:3])) and max(finals) > max(finals[:3])


def test_a_final_measurement_is_the_same_every_time_it_is_asked_for() -> None:
    found = simulated()
    name = next(point.candidate for point in found.points if point.candidate)
    assert found.world.final(name) == found.world.final(name)


def test_intervals_shrink_with_repeats_and_single_runs_spread_more_than_their_mean() -> None:
    few, many = (
        geomean(sample(Conditions(StrategyConfig("pike-b"), 40), range(count), (StudyCut(),), NUMBERS, 5), 0)
        for count in (4, 24)
    )
    assert many.ci95[1] - many.ci95[0] < few.ci95[1] - few.ci95[0]
    assert many.single95[0] < many.ci95[0] < many.mean < many.ci95[1] < many.single95[1]


@pytest.mark.parametrize(("preset", "published"), [("pike-b", 0.79), ("pike-b:cheap-efa", 0.71)])
def test_repairs_succeed_as_often_as_published(preset: str, published: float) -> None:
    found = sample(Conditions(StrategyConfig(preset)), range(1), (StudyCut(),), fitted(), 10)
    repaired = sum(each.repaired for each in found) / sum(each.failing for each in found)
    assert repaired == pytest.approx(published, abs=0.07)
