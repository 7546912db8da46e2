"""PIKE-B as published, and each option beside it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from search_worlds import (
    World,
    always,
    brainstormed,
    candidate_for,
    decisions,
    failing_agent,
    landscape,
    only_valid,
    refused,
    valid,
)

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Status


def pike_b(queries: int = 300, **options: Any) -> Strategy:
    return search.make(StrategyConfig("pike-b", options), Budget(queries=queries), run_seed=0)


def asked(strategy: Strategy, world: World, concurrency: int = 10) -> list[Step]:
    return [call for call in search.drive(strategy, world, concurrency=concurrency) if isinstance(call, Step)]


def shares(steps: list[Step], round_number: int) -> dict[str, int]:
    """First queries of a round by seed, in the order of samples."""
    first = [step for step in steps if step.round == round_number and step.role is Role.OPTIMISE]
    return dict(Counter(step.seed for step in sorted(first, key=lambda step: step.sample)))


def fixes(steps: list[Step]) -> Counter[int]:
    """Fix attempts by sample."""
    return Counter(step.sample for step in steps if step.role is Role.FIX)


def take_all(strategy: Strategy) -> list[Step]:
    steps = []
    while (step := strategy.ask()) is not None:
        steps.append(step)
    return steps


class TestAsPublished:
    def test_brainstorming_comes_first_and_costs_no_query(self) -> None:
        strategy = pike_b()
        first = strategy.ask()
        assert first is not None
        assert (first.role, first.queries, first.seed) == (Role.BRAINSTORM, 0, ORIGINAL)
        assert strategy.ask() is None
        assert not strategy.done

    def test_round_0_gives_each_sample_one_idea_on_the_original(self) -> None:
        steps = asked(pike_b(10), failing_agent_with_ideas(10))
        assert [(step.idea, step.seed) for step in steps[1:]] == [(f"idea {n}", ORIGINAL) for n in range(10)]

    def test_few_ideas_are_repeated_the_first_ones_more_often(self) -> None:
        steps = asked(pike_b(10), failing_agent_with_ideas(4))
        assert Counter(step.idea for step in steps[1:]) == {"idea 0": 3, "idea 1": 3, "idea 2": 2, "idea 3": 2}

    def test_more_ideas_than_samples_are_cut(self) -> None:
        steps = asked(pike_b(10), failing_agent_with_ideas(14))
        assert [step.idea for step in steps[1:]] == [f"idea {n}" for n in range(10)]

    @pytest.mark.parametrize("answer", [{"failure": "prose"}, {}, {"ideas": ("", "  \n")}])
    def test_unusable_brainstorming_means_no_idea(self, answer: dict[str, Any]) -> None:
        def world(step: Step) -> Outcome:
            return Outcome(step.id, **answer) if step.role is Role.BRAINSTORM else always(Status.VALID)(step)

        assert [step.idea for step in asked(pike_b(10), world)[1:]] == [None] * 10

    def test_ideas_serve_round_0_only(self) -> None:
        steps = asked(pike_b(40), always(Status.VALID))
        assert {step.idea for step in steps if step.round > 0} == {None}

    def test_later_rounds_share_ten_queries_over_the_four_fastest(self) -> None:
        # the five others cost five fixes each, so 35 queries go to round 0
        steps = asked(pike_b(45), only_valid([(0, 7), (0, 2), (0, 9), (0, 4), (0, 0)]))
        names = {step.sample: f"c{step.id}" for step in steps if step.round == 0 and step.role is Role.OPTIMISE}
        assert shares(steps, 1) == {names[7]: 3, names[2]: 3, names[9]: 2, names[4]: 2}

    @pytest.mark.parametrize(("count", "expected"), [(0, [10]), (1, [5, 5]), (2, [4, 3, 3]), (3, [3, 3, 2, 2])])
    def test_the_original_fills_one_slot_while_there_are_too_few(self, count: int, expected: list[int]) -> None:
        steps = asked(pike_b(100), only_valid([(0, sample) for sample in range(count)]))
        found = shares(steps, 1)
        assert list(found.values()) == expected
        assert list(found)[-1] == ORIGINAL
        assert len(found) == count + 1

    def test_a_refused_sample_is_fixed_up_to_five_times(self) -> None:
        steps = asked(pike_b(60), failing_agent)
        assert fixes(steps) == dict.fromkeys(range(10), 5)
        chain = [step for step in steps if step.sample == 3 and step.role is not Role.BRAINSTORM]
        assert [step.attempt for step in chain] == [0, 1, 2, 3, 4, 5]
        assert [step.failing for step in chain] == [None] + [f"c{step.id}" for step in chain[:-1]]

    def test_a_fix_starts_while_other_samples_are_still_out(self) -> None:
        strategy = pike_b()
        strategy.tell(brainstormed(strategy.ask()))  # type: ignore[arg-type]
        round_0 = take_all(strategy)
        assert len(round_0) == 10
        strategy.tell(Outcome(round_0[6].id, candidate_for(round_0[6]), refused()))
        fix = strategy.ask()
        assert fix is not None
        assert (fix.role, fix.sample, fix.failing) == (Role.FIX, 6, f"c{round_0[6].id}")

    def test_the_best_can_drop_out_of_the_pool(self) -> None:
        steps = asked(pike_b(30), improving_world({0: 1.0, 1: 5.0}))
        best = next(
            f"c{step.id}" for step in steps if (step.round, step.sample) == (0, 0) and step.role is Role.OPTIMISE
        )
        assert best in shares(steps, 1)
        assert best not in shares(steps, 2)

    def test_presets_are_these_points(self) -> None:
        assert all(step.role is not Role.FIX for step in asked(named("pike-b:no-efa"), failing_agent))
        assert all(step.role is not Role.BRAINSTORM for step in asked(named("pike-b:no-iba"), failing_agent))
        plain, cheap = asked(named("pike-b"), landscape(1)), asked(named("pike-b:cheap-efa"), landscape(1))
        assert plain == cheap
        assert search.info("pike-b:cheap-efa").own_models == (Role.FIX,)
        assert {step.temperature for step in plain} == {0.8}
        assert {step.max_output_tokens for step in plain} == {32_000}


class TestSamples:
    def test_nothing_is_repaired_where_a_repair_cannot_help(self) -> None:
        for outcome in (lambda step: Outcome(step.id, failure="declined"), always(Status.INFRA_ERROR)):
            assert not fixes(asked(pike_b(30, ideas=False), outcome))

    def test_a_fix_that_brings_nothing_ends_its_sample(self) -> None:
        def world(step: Step) -> Outcome:
            return Outcome(step.id, failure="gave up") if step.role is Role.FIX else failing_agent(step)

        assert set(fixes(asked(pike_b(20, ideas=False), world)).values()) == {1}

    def test_an_answer_without_code_is_not_what_the_next_fix_repairs(self) -> None:
        def world(step: Step) -> Outcome:
            empty = step.attempt in (1, 2)
            return Outcome(step.id, candidate_for(step, "" if empty else "code"), refused(Status.PARSE_ERROR))

        chain = asked(pike_b(6, ideas=False, pacing={"samples": 1}), world)
        assert [step.failing for step in chain] == [None, "c0", "c0", "c0", "c3", "c4"]

    def test_without_any_code_the_fix_still_names_the_last_answer(self) -> None:
        def world(step: Step) -> Outcome:
            return Outcome(step.id, candidate_for(step, "  "), refused(Status.PARSE_ERROR))

        chain = asked(pike_b(3, ideas=False, pacing={"samples": 1}), world)
        assert [step.failing for step in chain] == [None, "c0", "c1"]

    def test_equally_fast_solutions_are_taken_in_order_of_samples(self) -> None:
        steps = asked(pike_b(20), always(Status.VALID), concurrency=3)
        assert list(shares(steps, 1)) == ["c1", "c2", "c3", "c4"]


class TestBudget:
    def test_a_short_last_round_is_shared_over_the_same_slots(self) -> None:
        assert list(shares(asked(pike_b(13), always(Status.VALID)), 1).values()) == [1, 1, 1]

    def test_published_check_may_end_a_round_above_the_budget(self) -> None:
        steps = asked(pike_b(19, pacing={"budget_check": "round"}, ideas=False), always(Status.VALID))
        assert len(steps) == 20
        config = StrategyConfig(
            "pike-b", {"pacing": {"budget_check": "round"}, "repair": {"attempts": 1}, "ideas": False}
        )
        overshoot = search.make(config, Budget(queries=21), 0)
        assert len(asked(overshoot, always(Status.VALID))) == 30 == search.most_queries(config, Budget(queries=21))
        assert search.most_queries(config, Budget(queries=300)) == 309

    def test_published_check_still_counts_each_fix(self) -> None:
        steps = asked(pike_b(13, pacing={"budget_check": "round"}, ideas=False), failing_agent)
        assert len(steps) == 13

    def test_published_order_starves_late_samples(self) -> None:
        assert fixes(asked(pike_b(17), failing_agent)) == {0: 5, 1: 2}

    def test_fair_order_gives_every_sample_a_first_fix(self) -> None:
        assert fixes(asked(pike_b(23, repair={"order": "fair"}), failing_agent)) == {0: 2, 1: 2, 2: 2} | dict.fromkeys(
            range(3, 10), 1
        )

    @pytest.mark.parametrize(("order", "starts"), [("sample", False), ("fair", True)])
    def test_scarce_queries_wait_for_the_verdicts_that_decide_them(self, order: str, starts: bool) -> None:
        """Two queries left, sample 1 is refused and sample 0 is out: 0 may need both, or just one if shared."""
        strategy = pike_b(4, repair={"order": order}, pacing={"samples": 2}, ideas=False)
        zero, one = take_all(strategy)
        strategy.tell(Outcome(one.id, candidate_for(one), refused()))
        fix = strategy.ask()
        assert (fix is not None) == starts
        strategy.tell(Outcome(zero.id, candidate_for(zero), valid(1.0)))
        if fix is None:
            fix = strategy.ask()
        assert fix is not None
        assert (fix.role, fix.sample) == (Role.FIX, 1)

    def test_plenty_of_queries_make_nothing_wait(self) -> None:
        strategy = pike_b(60, ideas=False)
        steps = take_all(strategy)
        for step in reversed(steps):
            strategy.tell(Outcome(step.id, candidate_for(step), refused()))
            assert strategy.ask() is not None


class TestOptions:
    def test_run_memory_keeps_the_best(self) -> None:
        steps = asked(pike_b(40, library={"memory": "run"}), improving_world({0: 1.0, 1: 5.0, 2: 7.0}))
        best = next(
            f"c{step.id}" for step in steps if (step.round, step.sample) == (0, 0) and step.role is Role.OPTIMISE
        )
        assert all(best in shares(steps, round_number) for round_number in (1, 2, 3))

    def test_distinct_limits_the_children_of_one_parent(self) -> None:
        """Round 1's children of the best seed are the fastest four; distinct takes no more than it may of them."""

        def world(step: Step) -> Outcome:
            ms = 10.0 + step.sample if step.round == 0 else float(1 + step.sample)
            return Outcome(step.id, candidate_for(step), valid(ms))

        def parents(**options: Any) -> list[str]:
            steps = asked(pike_b(30, ideas=False, **options), world)
            by_name = {f"c{step.id}": step for step in steps}
            return [by_name[name].seed for name in shares(steps, 2)]

        assert parents() == ["c0", "c0", "c0", "c1"]
        assert parents(selection={"distinct": 1}) == ["c0", "c1", "c2", "c3"]
        assert parents(selection={"distinct": 2}) == ["c0", "c0", "c1", "c1"]

    def test_children_of_the_original_are_branches_of_their_own(self) -> None:
        steps = asked(pike_b(20, ideas=False, selection={"distinct": 1}), always(Status.VALID))
        assert len(shares(steps, 1)) == 4

    def test_a_repeated_solution_is_one_seed_only_by_option(self) -> None:
        def world(step: Step) -> Outcome:
            return Outcome(step.id, candidate_for(step, f"same {min(step.sample, 1)}\n"), valid(1.0 + step.sample))

        assert list(shares(asked(pike_b(20, ideas=False), world), 1)) == ["c0", "c1", "c2", "c3"]
        once = shares(asked(pike_b(20, ideas=False, library={"duplicates": "once"}), world), 1)
        assert list(once.items()) == [("c0", 4), ("c1", 3), (ORIGINAL, 3)]

    def test_quorum_starts_the_next_round_and_late_samples_join_the_pool_after(self) -> None:
        strategy = pike_b(300, ideas=False, pacing={"quorum": 0.8})
        round_0 = take_all(strategy)
        for step in round_0[:7]:
            strategy.tell(Outcome(step.id, candidate_for(step), valid(5.0 + step.sample)))
        assert strategy.ask() is None
        strategy.tell(Outcome(7, candidate_for(round_0[7]), valid(20.0)))
        round_1 = take_all(strategy)
        assert {step.round for step in round_1} == {1}
        late = round_0[9]
        strategy.tell(Outcome(late.id, candidate_for(late), valid(0.5)))
        for step in round_1[:8]:
            strategy.tell(Outcome(step.id, candidate_for(step), valid(5.0)))
        assert f"c{late.id}" in shares(take_all(strategy), 2)

    @pytest.mark.parametrize(
        ("seeding", "count", "expected"),
        [
            ("original", 5, {ORIGINAL: 10}),
            ("seeds", 2, {"r-0": 4, "r-1": 3, ORIGINAL: 3}),
            ("seeds", 5, {"r-0": 3, "r-1": 3, "r-2": 2, "r-3": 2}),
            ("both", 1, {"r-0": 5, ORIGINAL: 5}),
            ("both", 5, {"r-0": 3, "r-1": 3, "r-2": 2, ORIGINAL: 2}),
        ],
    )
    def test_where_round_0_starts_with_solutions_from_outside(
        self, seeding: str, count: int, expected: dict[str, int]
    ) -> None:
        strategy = pike_b(10, selection={"seeding": seeding})
        for index in reversed(range(count)):
            strategy.admit(Candidate(f"r-{index}", f"# {index}"), valid(1.0 + index))
        steps = asked(strategy, failing_agent_with_ideas(10))
        assert shares(steps, 0) == expected
        assert all(step.idea for step in steps[1:])

    def test_solutions_from_outside_compete_for_round_1_when_round_0_ignores_them(self) -> None:
        strategy = pike_b(20, selection={"seeding": "original"})
        strategy.admit(Candidate("r-fast", "#"), valid(0.1))
        assert next(iter(shares(asked(strategy, always(Status.VALID)), 1))) == "r-fast"

    def test_every_option_is_reached_from_settings(self) -> None:
        config = search.resolve(StrategyConfig("pike-b", {"temperature": 0.1, "max_output_tokens": 500}))
        steps = asked(search.make(config, Budget(queries=5), 0), landscape(0))
        assert {(step.temperature, step.max_output_tokens) for step in steps} == {(0.1, 500)}


def named(preset: str) -> Strategy:
    return search.make(StrategyConfig(preset), Budget(queries=75), 0)


def failing_agent_with_ideas(count: int) -> World:
    def world(step: Step) -> Outcome:
        return brainstormed(step, count) if step.role is Role.BRAINSTORM else failing_agent(step)

    return world


def improving_world(ms_of_round: dict[int, float]) -> World:
    """All valid; sample 0 of a round is its fastest, at the given time."""

    def world(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return brainstormed(step)
        return Outcome(step.id, candidate_for(step), valid(ms_of_round.get(step.round, 9.0) + step.sample / 10))

    return world


def test_decisions_name_candidates_by_place() -> None:
    """The tool of the order tests tells apart what differs in more than ids."""
    calls = search.drive(pike_b(30), landscape(2), concurrency=4)
    assert decisions(calls) == decisions(search.drive(pike_b(30), landscape(2), concurrency=1))
    changed = [dataclasses.replace(call, idea="another") if isinstance(call, Step) else call for call in calls]
    assert decisions(changed) != decisions(calls)
