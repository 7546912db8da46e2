"""Our own preset: it starts where recipes end, repairs later, and beats pike-b in the simulator on equal terms."""

from __future__ import annotations

from search_worlds import candidate_for, landscape, refused, valid

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Scope, Step
from pike.search.drive import drive
from pike.simulate import Conditions, StudyCut, fitted, geomean, sample


def steps(queries: int, world: object, *, seeds: int = 0) -> list[Step]:
    strategy = search.make(StrategyConfig("pike-x"), Budget(queries), 0)
    for index in range(seeds):
        strategy.admit(Candidate(f"r-{index}", f"# {index}"), valid(1.0 + index))
    calls = drive(strategy, world, concurrency=10)  # type: ignore[arg-type]
    return [call for call in calls if isinstance(call, Step)]


def test_first_attempts_go_to_the_original_and_then_the_fastest_recipe_is_improved() -> None:
    asked = [step for step in steps(80, landscape(2), seeds=3) if step.role is Role.OPTIMISE]
    assert {step.seed for step in asked[:10]} == {ORIGINAL}
    assert all(step.idea for step in asked[:10])
    assert "r-0" in {step.seed for step in asked[10:20]}


def test_a_stubborn_failure_holds_nothing_up() -> None:
    """Nothing is ever right: half of the queries still go to new samples, and every failure gets its first repair."""

    def hopeless(step: Step) -> Outcome:
        return Outcome(step.id) if step.role is Role.BRAINSTORM else Outcome(step.id, candidate_for(step), refused())

    asked = steps(200, hopeless)
    repairs = [step for step in asked if step.role is Role.FIX]
    assert 80 <= len(repairs) <= 110
    assert [step.attempt for step in repairs[:40]].count(1) > 35


def test_a_plateau_calls_for_another_approach() -> None:
    def flat(step: Step) -> Outcome:
        return (
            Outcome(step.id, ideas=("an idea",))
            if step.role is Role.BRAINSTORM
            else Outcome(step.id, candidate_for(step), valid(5.0))
        )

    scopes = [step.scope for step in steps(60, flat) if step.seed != ORIGINAL]
    assert scopes[-1] is Scope.REWRITE


def test_it_beats_pike_b_in_the_simulator_with_and_without_recipes() -> None:
    for seeds in (False, True):
        ours, theirs = (
            geomean(sample(Conditions(config, 50, recipe_seeds=seeds), range(6), (StudyCut(),), fitted(), 15), 0)
            for config in (StrategyConfig("pike-x", {"recipe_seeds": False}), StrategyConfig("pike-b"))
        )
        assert ours.ci95[0] > theirs.mean, (seeds, ours, theirs)
