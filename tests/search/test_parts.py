"""The exchangeable parts, each for itself: what pools forget, what is drawn, which repairs come first."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pike import search
from pike.core.config import StrategyConfig
from pike.core.step import ORIGINAL, Scope
from pike.search.chance import Urn
from pike.search.deferring import Deferring
from pike.search.family import Family
from pike.search.options import Options
from pike.search.parts import Kin, Node, Turn
from pike.search.pool import Everything, Pool
from pike.search.progress import Progress
from pike.search.selection import Original


def options(**given: Any) -> Options:
    chosen: Options = search.options_of(StrategyConfig("pike-b", given))
    return chosen


def node(number: int, ms: float = float("inf"), source: str = "code", parent: str = ORIGINAL, attempt: int = 0) -> Node:
    return Node(ms, 0, number, attempt, f"c{number}" + "'" * attempt, parent, source)


def filled(chosen: Options, *nodes: Node) -> Pool:
    pool = Pool(chosen, 0)
    for each in nodes:
        pool.add(each)
    return pool


def names(pool: Pool, count: int = 99) -> list[str]:
    return [each.id for each in pool.fastest(count)]


class TestPool:
    def test_refused_nodes_and_the_original_are_no_solutions(self) -> None:
        pool = filled(options(), node(0), node(1, 2.0), Node(1.0, -1, -1, 0, ORIGINAL))
        assert names(pool) == ["c1"]
        assert [pool.holds(name) for name in ("c0", "c1", ORIGINAL)] == [False, True, False]

    def test_a_small_archive_keeps_the_fastest(self) -> None:
        pool = filled(options(archive_size=2), node(0, 3.0), node(1, 1.0), node(2, 2.0), node(3, 9.0))
        assert names(pool) == ["c1", "c2"]
        assert not pool.holds("c0")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_of_equal_sources_the_first_in_the_order_of_selection_stays(self, order: tuple[int, int]) -> None:
        twins = (node(0, 1.0, "same"), node(1, 2.0, " same\n"))
        pool = filled(options(duplicates="once"), *(twins[index] for index in order), node(2, 3.0, "other"))
        assert names(pool) == ["c0", "c2"]

    def test_short_memory_is_lost_at_the_turn_and_a_tree_loses_nothing(self) -> None:
        pool, tree = filled(options(), node(0, 1.0)), Everything(options(), 0)
        for each in (node(0, 1.0), node(1)):
            tree.add(each)
        pool.turn()
        tree.turn()
        assert (names(pool), names(tree)) == ([], ["c0"])
        assert tree.holds("c1")

    @pytest.mark.parametrize(
        ("explore", "exploit", "seeds"),
        [(0.0, 1.0, {"c0", "c1"}), (1.0, 0.0, {"c0", "c1", "c2"}), (0.0, 0.0, {"c0", "c1", "c2", ORIGINAL})],
    )
    def test_ratios_decide_what_a_seed_is_drawn_from(self, explore: float, exploit: float, seeds: set[str]) -> None:
        chosen = options(top_k=2, exploration=explore, exploitation=exploit, shown=1)
        pool = filled(chosen, *(node(number, 1.0 + number) for number in range(3)))
        draws = [pool.draw() for _ in range(60)]
        assert {draw.seed for draw in draws} == seeds
        assert all(draw.inspirations == (("c1",) if draw.seed == "c0" else ("c0",)) for draw in draws)

    def test_an_empty_pool_draws_the_original(self) -> None:
        assert Pool(options(), 0).draw().seed == ORIGINAL


def test_an_urn_gives_each_name_its_chance_whatever_was_taken_out() -> None:
    urn, rng = Urn(), random.Random(1)
    for name in "abcde":
        urn.add(name)
    urn.discard("b")
    urn.discard("e")
    urn.add("a")
    drawn = [urn.draw(rng) for _ in range(3000)]
    assert all(900 < drawn.count(name) < 1100 for name in "acd")
    assert len(urn) == 3


class TestDeferring:
    def waiting(self, order: str, *refused: Node, share: float = 1.0, later: int = 2) -> Deferring:
        chosen = options(repair="deferred", fix_order=order, repair_share=share, fix_attempts=later)
        family = Family()
        deferring = Deferring(chosen, Original(chosen), family)
        for each in refused:
            kin = Kin(each, has_code=bool(each.source))
            family.add(kin)
            deferring.learn(kin)
        return deferring

    def repaired(self, deferring: Deferring, count: int, moves: int = 0) -> list[str]:
        return [move.under for move in deferring.choose(count, 99, Turn(moves=moves))]

    def test_repairs_get_their_share_of_the_moves(self) -> None:
        half = self.waiting("fair", *(node(number) for number in range(9)), share=0.5)
        assert self.repaired(half, 4) == ["c0", "c1", ORIGINAL, ORIGINAL]
        one_by_one = self.waiting("fair", *(node(number) for number in range(9)), share=0.25)
        assert [self.repaired(one_by_one, 1, moves)[0] for moves in range(8)].count(ORIGINAL) == 6

    def test_without_queries_for_a_candidate_a_repair_still_comes(self) -> None:
        chosen = options(repair="deferred", roles="plan-code", repair_share=0.0)
        family = Family()
        deferring = Deferring(chosen, Original(chosen), family)
        assert not deferring.can_choose(1)
        family.add(Kin(node(0)))
        deferring.learn(Kin(node(0)))
        assert deferring.can_choose(1)
        assert [move.under for move in deferring.choose(3, 1, Turn())] == ["c0"]

    def test_an_answer_without_code_is_not_repaired(self) -> None:
        assert self.repaired(self.waiting("fair", node(0, source="")), 1) == [ORIGINAL]

    @pytest.mark.parametrize(("order", "then"), [("sample", "c0'"), ("fair", "c1")])
    def test_the_order_says_whose_turn_it_is_after_a_repair_that_failed(self, order: str, then: str) -> None:
        deferring = self.waiting(order, node(0), node(1))
        assert self.repaired(deferring, 1) == ["c0"]
        child = Kin(node(0, attempt=1), under="c0")
        deferring._family.add(child)
        deferring.learn(child)
        assert self.repaired(deferring, 1) == [then]

    def test_a_line_has_so_many_attempts_and_no_more(self) -> None:
        deferring = self.waiting("sample", node(0), later=1)
        assert self.repaired(deferring, 1) == ["c0"]
        child = Kin(node(0, attempt=1), under="c0")
        deferring._family.add(child)
        deferring.learn(child)
        assert self.repaired(deferring, 1) == [ORIGINAL]


class TestProgress:
    def test_gains_ask_for_small_steps_and_a_plateau_for_another_approach(self) -> None:
        progress = Progress(options(scope="adaptive", plateau=3))
        progress.take(1, 5.0)
        assert (progress.scope_from("c0"), progress.scope_from(ORIGINAL)) == (Scope.TWEAK, Scope.ANY)
        progress.take(2, 4.99)  # within the noise: no gain
        assert progress.scope_from("c0") is Scope.TWEAK
        progress.take(1, float("inf"))
        assert progress.scope_from("c0") is Scope.REWRITE
        progress.take(1, 4.0)
        assert progress.scope_from("c0") is Scope.TWEAK

    def test_by_default_nothing_is_said(self) -> None:
        progress = Progress(options())
        progress.take(50, float("inf"))
        assert progress.scope_from("c0") is Scope.ANY
