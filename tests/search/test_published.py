"""The published strategies beside PIKE-B: each does what its source says, seen from outside."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from search_worlds import World, always, candidate_for, failing_agent, landscape, planned, refused, valid

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Status
from pike.search.inspiration import Inspirations
from pike.search.options.library import Pool
from pike.search.options.selection import ByRatio
from pike.search.parts import Move, Node, SeedDraw
from pike.search.pool import SolutionPool
from pike.search.sample import Sample
from pike.search.tree import CandidateTree


def build(name: str, queries: int = 60, run_seed: int = 0, **options: Any) -> Strategy:
    return search.make(StrategyConfig(name, options), Budget(queries=queries), run_seed)


def asked(strategy: Strategy, world: World, concurrency: int = 1) -> list[Step]:
    return [call for call in search.drive(strategy, world, concurrency=concurrency) if isinstance(call, Step)]


def take_all(strategy: Strategy) -> list[Step]:
    steps = []
    while (step := strategy.ask()) is not None:
        steps.append(step)
    return steps


def scripted(verdicts: dict[int, float | None]) -> World:
    """Candidates by their sample: milliseconds, None for a refused one; what is not named is refused."""

    def world(step: Step) -> Outcome:
        if step.role is Role.PLAN:
            return planned(step)
        ms = verdicts.get(step.sample)
        return Outcome(step.id, candidate_for(step), refused() if ms is None else valid(ms))

    return world


class TestBestOfN:
    def test_every_query_is_an_attempt_at_the_original(self) -> None:
        steps = asked(build("best-of-n", 40), landscape(1))
        assert {(step.role, step.seed, step.attempt) for step in steps} == {(Role.OPTIMISE, ORIGINAL, 0)}
        assert [step.sample for step in steps] == list(range(40))

    def test_ideas_by_option_serve_one_attempt_each(self) -> None:
        def world(step: Step) -> Outcome:
            return Outcome(step.id, ideas=("a", " ", "b")) if step.role is Role.BRAINSTORM else failing_agent(step)

        steps = asked(build("best-of-n", 4, ideas=True), world)
        assert [step.idea for step in steps[1:]] == ["a", "b", None, None]

    def test_so_many_are_open_at_once(self) -> None:
        assert len(take_all(build("best-of-n", 60, pacing={"in_flight": 7}))) == 7


class TestReflexion:
    def test_each_attempt_revises_the_last_failing_or_not(self) -> None:
        def world(step: Step) -> Outcome:
            good = step.id in (0, 3, 4)
            return Outcome(step.id, candidate_for(step), valid(1.0 + step.id) if good else refused())

        steps = asked(build("reflexion", 6), world, concurrency=5)
        assert [(step.role, step.failing or step.seed) for step in steps] == [
            (Role.OPTIMISE, ORIGINAL),
            (Role.OPTIMISE, "c0"),
            (Role.FIX, "c1"),
            (Role.FIX, "c2"),
            (Role.OPTIMISE, "c3"),
            (Role.OPTIMISE, "c4"),
        ]
        assert [step.seed for step in steps[2:4]] == ["c0", "c0"]
        assert [step.attempt for step in steps] == [0, 0, 1, 2, 0, 0]

    def test_a_chain_that_may_not_repair_any_more_goes_on_from_the_last_that_worked(self) -> None:
        steps = asked(build("reflexion", 4, repair={"attempts": 1}), scripted({0: 1.0}))
        assert [step.failing or step.seed for step in steps] == [ORIGINAL, "c0", "c1", "c0"]

    def test_side_by_side_the_latest_in_the_order_of_samples_is_revised(self) -> None:
        strategy = build("reflexion", 9, pacing={"in_flight": 2})
        zero, one = take_all(strategy)
        strategy.tell(Outcome(one.id, candidate_for(one), valid(1.0)))
        (two,) = take_all(strategy)
        strategy.tell(Outcome(zero.id, candidate_for(zero), valid(1.0)))
        assert [two.seed, *(step.seed for step in take_all(strategy))] == ["c1", "c1"]

    def test_it_begins_at_the_fastest_solution_from_outside(self) -> None:
        strategy = build("reflexion", 2)
        for name, ms in (("r-slow", 3.0), ("r-fast", 1.0), ("r-middle", 2.0)):
            strategy.admit(Candidate(name, "#"), valid(ms))
        assert asked(strategy, failing_agent)[0].seed == "r-fast"


class TestMetr:
    def test_eight_first_attempts_then_only_from_what_works(self) -> None:
        steps = asked(build("metr", 40), always(Status.VALID), concurrency=8)
        assert [step.seed for step in steps[:8]] == [ORIGINAL] * 8
        assert ORIGINAL not in {step.seed for step in steps[8:]}

    def test_the_faster_the_more_often(self) -> None:
        times = {0: 1.0, 1: 2.0, 2: 4.0}
        steps = asked(build("metr", 3000, pacing={"first_attempts": 3, "in_flight": 3}), scripted(times))
        drawn = Counter(step.seed for step in steps[3:])
        shares = {f"c{sample}": 1 / ms / sum(1 / other for other in times.values()) for sample, ms in times.items()}
        assert set(drawn) == set(shares)
        assert all(math.isclose(drawn[seed] / (len(steps) - 3), share, abs_tol=0.03) for seed, share in shares.items())

    def test_while_nothing_works_the_original_is_tried_again(self) -> None:
        assert {step.seed for step in asked(build("metr", 30), failing_agent)} == {ORIGINAL}


def test_recipes_ask_no_model_and_say_so() -> None:
    assert search.needs(StrategyConfig("recipes")).recipes_write
    assert not search.needs(StrategyConfig("pike-b")).recipes_write
    assert search.needs(StrategyConfig("pike-b", {"recipe_seeds": True})).recipe_seeds


class TestStark:
    def test_a_new_candidate_is_planned_and_then_carried_out(self) -> None:
        plan, code = asked(build("stark", 2), scripted({0: 1.0}))
        assert (plan.role, plan.temperature, plan.plan) == (Role.PLAN, 0.8, "")
        assert (code.role, code.temperature, code.plan) == (Role.CODE, 0.1, "plan 0/0")
        assert (plan.queries, code.queries) == (1, 1)

    def test_debugging_gets_the_plan_of_what_it_repairs(self) -> None:
        steps = asked(build("stark", 40, selection={"root_children": 1}), scripted({}))
        debug = [step for step in steps if step.role is Role.DEBUG]
        assert debug
        assert {(step.plan, step.temperature, step.seed) for step in debug} == {("plan 0/0", 0.1, ORIGINAL)}

    def test_the_original_has_at_most_so_many_children(self) -> None:
        """The original is by far the fastest, so that only throttling keeps the search away from it."""
        steps = asked(
            build("stark", 60, selection={"root_children": 3, "epsilon": 0.0}), scripted(dict.fromkeys(range(60), 90.0))
        )
        assert sum(step.seed == ORIGINAL for step in steps if step.role is Role.PLAN) == 3

    def test_throttling_counts_what_is_open(self) -> None:
        strategy = build("stark:search-only", 60, pacing={"in_flight": 20})
        assert [step.seed for step in take_all(strategy)] == [ORIGINAL] * 5
        assert not strategy.done

    def test_without_exploration_the_best_is_expanded(self) -> None:
        times = {0: 4.0, 1: 2.0, 2: 3.0, 3: 1.0}
        steps = asked(build("stark:search-only", 6, selection={"epsilon": 0.0}), scripted(times))
        assert [step.seed for step in steps] == [ORIGINAL, "c0", "c1", "c1", "c3", "c3"]

    def test_a_node_whose_children_all_failed_is_given_up(self) -> None:
        options = {"selection": {"epsilon": 0.0, "failing_children": 2}, "repair": "none"}
        steps = asked(build("stark:search-only", 12, **options), scripted({0: 1.0, 4: 5.0}))
        seeds = [step.seed for step in steps]
        assert seeds[:4] == [ORIGINAL, "c0", "c0", "c0"]
        assert "c0" not in seeds[4:9]

    def test_a_node_with_one_good_child_is_not_given_up(self) -> None:
        options = {"selection": {"epsilon": 0.0, "failing_children": 2}, "repair": "none"}
        steps = asked(build("stark:search-only", 12, **options), scripted({0: 1.0, 2: 5.0}))
        assert [step.seed for step in steps][1:] == ["c0"] * 11

    def test_exploring_takes_any_leaf_failing_ones_included(self) -> None:
        taken: set[str] = set()
        for run_seed in range(40):
            strategy = build("stark:search-only", 9, run_seed, selection={"epsilon": 1.0})
            for name, ms in (("r-0", 1.0), ("r-1", 2.0)):
                strategy.admit(Candidate(name, "#"), valid(ms))
            first = strategy.ask()
            assert first is not None
            strategy.tell(Outcome(first.id, candidate_for(first), refused()))
            second = strategy.ask()
            assert second is not None
            taken.add(second.failing or second.seed)
        assert {"r-0", "r-1", "c0"} == taken

    def test_equally_fast_nodes_are_chosen_by_chance(self) -> None:
        def second_seed(run_seed: int) -> str:
            strategy = build("stark:search-only", 9, run_seed, selection={"epsilon": 0.0})
            for index in range(4):
                strategy.admit(Candidate(f"r-{index}", "#"), valid(1.0))
            step = strategy.ask()
            assert step is not None
            return step.seed

        assert {second_seed(run_seed) for run_seed in range(60)} == {f"r-{index}" for index in range(4)}

    def test_a_node_that_is_being_expanded_waits(self) -> None:
        strategy = build(
            "stark:search-only", 60, pacing={"in_flight": 20}, selection={"epsilon": 0.0, "root_children": 1}
        )
        strategy.admit(Candidate("r-0", "#"), valid(1.0))
        assert sorted(step.seed for step in take_all(strategy)) == [ORIGINAL, "r-0"]

    def test_what_the_library_let_go_is_not_expanded(self) -> None:
        options = {
            "library": {"kind": "pool", "memory": "run", "size": 1},
            "selection": {"epsilon": 1.0, "root_children": 2},
            "repair": "none",
        }
        times = {0: 2.0, 1: 1.0}
        seeds = [step.seed for step in asked(build("stark:search-only", 20, **options), scripted(times))]
        assert "c0" not in seeds[3:]
        assert "c1" in seeds[3:]

    def test_when_nothing_may_be_expanded_the_least_expanded_node_is(self) -> None:
        """One refused child of the original, which is throttled; the child is dead after one failed repair."""
        options = {
            "selection": {"root_children": 1, "failing_children": 0, "epsilon": 0.0},
            "repair": {"attempts": 2},
        }
        steps = asked(build("stark:search-only", 9, **options), lambda step: _without_code_but_first(step))
        assert [step.failing or step.seed for step in steps[:4]] == [ORIGINAL, "c0", ORIGINAL, "c0"]

    def test_what_is_left_pays_for_a_repair_but_not_for_half_a_candidate(self) -> None:
        steps = asked(build("stark", 3), scripted({}))
        assert [step.role for step in steps] == [Role.PLAN, Role.CODE, Role.DEBUG]
        assert sum(step.queries for step in asked(build("stark", 3), scripted({0: 1.0}))) == 2

    def test_a_plan_that_brings_nothing_frees_the_query_set_aside(self) -> None:
        steps = asked(build("stark", 4), lambda step: Outcome(step.id, failure="no anchors"))
        assert [step.role for step in steps] == [Role.PLAN] * 3
        assert len(asked(build("stark:search-only", 4), lambda step: Outcome(step.id))) == 4

    def test_a_budget_may_count_attempts_as_the_paper_does(self) -> None:
        attempts = {"roles": {"count_attempts": True}}
        steps = asked(build("stark", 6, **attempts), scripted({0: 1.0, 3: 5.0}))
        written = [step for step in steps if step.role is not Role.PLAN]
        assert len(written) == sum(step.queries for step in steps) == 6
        assert {step.queries for step in steps if step.role is Role.PLAN} == {0}
        unusable = asked(build("stark", 4, **attempts), lambda step: Outcome(step.id, failure="no anchors"))
        assert len(unusable) == 4, "an unusable plan uses its attempt, so the search ends"

    @pytest.mark.parametrize("name", ["stark:search-only", "stark:ma-only"])
    def test_ablations_leave_out_what_they_say(self, name: str) -> None:
        steps = asked(build(name, 60), landscape(2))
        roles = {step.role for step in steps}
        if name == "stark:search-only":
            assert roles == {Role.OPTIMISE, Role.FIX}
        else:
            assert roles == {Role.PLAN, Role.CODE, Role.DEBUG}
            assert {step.seed for step in steps} == {ORIGINAL}


def _without_code_but_first(step: Step) -> Outcome:
    return Outcome(step.id, candidate_for(step, "code" if step.id == 0 else ""), refused())


class TestWindows:
    """One tree, by hand: c0 and c1 under the original, c2 and c3 under c0, c4 under c1; c3 is refused."""

    def tree(self, role: Role, at: str, without_code: str = "", **options: Any) -> tuple[str, ...]:
        tree, links = CandidateTree(), (ORIGINAL, ORIGINAL, "c0", "c0", "c1")
        times = (5.0, 3.0, 4.0, math.inf, 2.0)
        for number, (under, ms) in enumerate(zip(links, times, strict=True)):
            source = "" if f"c{number}" == without_code else "code"
            tree.add(Node(ms, 0, number, 0, f"c{number}", under, source, under=under))
        chosen = search.options_of(StrategyConfig("stark", {"inspiration": options}))
        failing = tree[at] if role.repairs else None
        move = Move(SeedDraw(tree[at].under if failing else at), failing)
        sample = Sample(0, 9, move, failing=at if failing else "")
        return Inspirations(chosen, SolutionPool(Pool(), ByRatio(), 0, 0), tree).of_step(role, sample)

    def test_planning_sees_the_children_and_the_leaders(self) -> None:
        assert self.tree(Role.PLAN, "c0", leaders=2) == ("c3", "c2", "c4", "c1")

    def test_coding_sees_the_children_and_those_of_the_siblings(self) -> None:
        assert self.tree(Role.CODE, "c0") == ("c3", "c2", "c4")

    def test_debugging_sees_the_siblings(self) -> None:
        assert self.tree(Role.DEBUG, "c3") == ("c2",)

    def test_a_window_holds_the_newest_and_not_the_node_itself(self) -> None:
        assert self.tree(Role.CODE, "c0", relatives=1) == ("c3", "c4")
        assert self.tree(Role.DEBUG, "c3", relatives=1) == ("c2",)

    def test_an_answer_without_code_is_not_shown(self) -> None:
        assert self.tree(Role.CODE, "c0", without_code="c2") == ("c3", "c4")


def test_crossover_shows_the_fastest_others() -> None:
    steps = asked(build("metr", 30, inspiration={"kind": "fastest", "count": 2}), always(Status.VALID), concurrency=8)
    assert all(len(step.inspirations) == 2 and step.seed not in step.inspirations for step in steps[16:])


def test_adaptive_scope_reaches_the_steps() -> None:
    scopes = [
        step.scope
        for step in asked(build("metr", 40, scope={"kind": "adaptive", "plateau": 4}), scripted({0: 5.0, 20: 1.0}))
    ]
    assert scopes[0] == "any"
    assert "rewrite" in scopes[10:21]
    assert "tweak" in scopes[21:25]
