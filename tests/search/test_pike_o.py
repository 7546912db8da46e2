"""PIKE-O as its paper describes it: what each rung changes, and what that does to a run."""

from __future__ import annotations

import pytest
from search_worlds import always, landscape
from strategy_contract import steps_of

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Status
from pike.search.drive import drive
from pike.search.evolution import Population, population

RUNGS = [preset.name for preset in search.presets() if preset.name.startswith("pike-o")]

MUT = {"inspiration": "none"}
ALONE = {**MUT, "pacing.in_flight": "1"}
ONE_ISLAND = {**ALONE, "library.islands": "1"}
EXPLOIT = {**ONE_ISLAND, "selection.exploration": "0.0", "selection.exploitation": "1.0"}


def make(name: str, queries: int, run_seed: int = 0, **options: object) -> Strategy:
    return search.make(StrategyConfig(name, options), Budget(queries), run_seed)


def held(strategy: Strategy) -> Population:
    found = population(strategy)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("pike-o:no-efa", {"repair": "none"}),
        ("pike-o:mut", MUT),
        ("pike-o:mut,npar", ALONE),
        ("pike-o:mut,npar,1isl", ONE_ISLAND),
        ("pike-o:mut,npar,1isl,eo", EXPLOIT),
        ("pike-o:mut,npar,1isl,eo,sl", {**EXPLOIT, "library.archive": "4"}),
    ],
)
def test_a_rung_changes_what_the_paper_says_and_nothing_else(name: str, changed: dict[str, str]) -> None:
    assert dict(search.info(name).differences) == changed


def test_the_published_parameters() -> None:
    options = dict(search.info("pike-o").options)
    published = {
        "library": "islands",
        "library.population": "25",
        "library.archive": "12",
        "library.elite_ratio": "0.2",
        "library.islands": "3",
        "library.migration_interval": "50",
        "library.migration_rate": "0.1",
        "library.bins": "10",
        "inspiration.top": "5",
        "selection.exploration": "0.2",
        "selection.exploitation": "0.7",
        "pacing.in_flight": "20",
        "repair": "immediate",
        "repair.attempts": "5",
        "ideas": "false",
    }
    assert {name: options[name] for name in published} == published
    assert len(RUNGS) == 7


@pytest.mark.parametrize(("name", "most"), [("pike-o", 20), ("pike-o:mut", 20), ("pike-o:mut,npar", 1)])
def test_so_many_are_in_flight(name: str, most: int) -> None:
    strategy = make(name, 100)
    asked = 0
    while strategy.ask() is not None:
        asked += 1
    assert asked == most


def test_crossover_shows_others_and_mutation_does_not() -> None:
    crossover = steps_of(drive(make("pike-o", 200), landscape(1), concurrency=5))
    first = [step for step in crossover if step.role is Role.OPTIMISE]
    assert all(not step.inspirations for step in first[:5]), "nothing is known yet"
    assert sum(len(step.inspirations) >= 3 for step in first) > len(first) / 2
    assert max(len(step.inspirations) for step in first) <= 8
    mutation = steps_of(drive(make("pike-o:mut", 200), landscape(1), concurrency=5))
    assert all(not step.inspirations for step in mutation)
    assert len({step.seed for step in mutation}) > 10


def test_errors_are_fixed_inside_the_iteration_and_nothing_is_brainstormed() -> None:
    steps = steps_of(drive(make("pike-o:mut,npar", 18), always(Status.BUILD_ERROR)))
    assert [step.attempt for step in steps] == [0, 1, 2, 3, 4, 5] * 3
    assert {step.role for step in steps} == {Role.OPTIMISE, Role.FIX}
    assert [step.sample for step in steps] == [0] * 6 + [1] * 6 + [2] * 6
    unrepaired = steps_of(drive(make("pike-o:no-efa", 18), always(Status.BUILD_ERROR)))
    assert {step.role for step in unrepaired} == {Role.OPTIMISE}


@pytest.mark.parametrize("name", RUNGS)
def test_only_what_works_is_kept(name: str) -> None:
    valid: set[str] = set()
    world = landscape(3)

    def answer(step: Step) -> Outcome:
        outcome = world(step)
        if outcome.candidate is not None and outcome.evaluation is not None and outcome.evaluation.valid:
            valid.add(outcome.candidate.id)
        return outcome

    strategy = make(name, 200)
    drive(strategy, answer, concurrency=5)
    found = held(strategy)
    members = {found.copies.get(member, member) for island in found.islands for member in island}
    assert members - {ORIGINAL} <= valid
    assert ORIGINAL not in {found.copies.get(member, member) for member in found.archive}
    assert len(found.archive) <= (4 if name.endswith(",sl") else 12)
    assert len(found.islands) == (1 if "1isl" in name else 3)
    assert set(found.homes) == {ORIGINAL, *valid}


def test_exploitation_starts_from_elites_only() -> None:
    strategy = make("pike-o:mut,npar,1isl,eo,sl", 150)
    world = landscape(2)
    while (step := strategy.ask()) is not None:
        archive = held(strategy).archive
        assert step.role is Role.FIX or step.seed in (archive or (ORIGINAL,))
        strategy.tell(world(step))
    assert len(held(strategy).archive) == 4


def test_the_run_seed_decides_what_is_drawn() -> None:
    one, other = (drive(make("pike-o", 120, seed), landscape(4), concurrency=5) for seed in (1, 2))
    assert one != other
    assert one == drive(make("pike-o", 120, 1), landscape(4), concurrency=5)


def test_a_pool_can_be_drawn_for_crossover_and_the_database_for_rounds() -> None:
    """The library is an option like any other."""
    for name, options in (
        ("pike-b:no-iba", {"library": "islands"}),
        ("pike-b:no-iba", {"library": "islands", "selection": "ratio", "inspiration": "drawn"}),
        ("pike-o", {"selection": "top-k"}),
        (
            "pike-o",
            {
                "library": {"kind": "pool", "memory": "run"},
                "selection": {"elites": 4},
                "inspiration": {"top": 5, "others": 0},
            },
        ),
    ):
        strategy = make(name, 60, **options)
        seeds = {step.seed for step in steps_of(drive(strategy, landscape(5), concurrency=4))}
        assert len(seeds) > 2
