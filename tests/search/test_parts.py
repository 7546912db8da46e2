"""The exchangeable parts, each for itself: what pools forget, what is drawn, which repairs come first."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pike.core.step import ORIGINAL, Scope
from pike.search.options.library import Duplicates, Memory, Pool
from pike.search.options.prompting import Adaptive, AnyScope
from pike.search.options.repair import Deferred, FixOrder
from pike.search.options.selection import ByRatio
from pike.search.parts import Node, SearchState
from pike.search.pool import SolutionPool
from pike.search.progress import SearchProgress
from pike.search.selection.deferred import DeferredRepairs
from pike.search.selection.epsilon_greedy import DrawableSet
from pike.search.selection.original import OriginalSelection
from pike.search.tree import CandidateTree


def node(number: int, ms: float = float("inf"), source: str = "code", parent: str = ORIGINAL, attempt: int = 0) -> Node:
    return Node(ms, 0, number, attempt, f"c{number}" + "'" * attempt, parent, source)


def filled(options: Pool, *nodes: Node, ratio: ByRatio | None = None) -> SolutionPool:
    pool = SolutionPool(options, ratio or ByRatio(elites=2), 1, 0)
    for each in nodes:
        pool.add(each)
    return pool


def names(pool: SolutionPool, count: int = 99) -> list[str]:
    return [each.id for each in pool.fastest(count)]


class TestPool:
    def test_refused_nodes_and_the_original_are_no_solutions(self) -> None:
        pool = filled(Pool(), node(0), node(1, 2.0), Node(1.0, -1, -1, 0, ORIGINAL))
        assert names(pool) == ["c1"]
        assert [pool.holds(name) for name in ("c0", "c1", ORIGINAL)] == [False, True, False]

    def test_a_small_archive_keeps_the_fastest(self) -> None:
        pool = filled(Pool(size=2), node(0, 3.0), node(1, 1.0), node(2, 2.0), node(3, 9.0))
        assert names(pool) == ["c1", "c2"]
        assert not pool.holds("c0")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_of_equal_sources_the_first_in_the_order_of_selection_stays(self, order: tuple[int, int]) -> None:
        same = (node(0, 1.0, "same"), node(1, 2.0, " same\n"))
        pool = filled(Pool(duplicates=Duplicates.ONCE), *(same[index] for index in order), node(2, 3.0, "other"))
        assert names(pool) == ["c0", "c2"]

    def test_short_memory_is_lost_with_the_round(self) -> None:
        short, long = (filled(Pool(memory), node(0, 1.0)) for memory in Memory)
        for pool in (short, long):
            pool.begin_round()
        assert (names(short), names(long)) == ([], ["c0"])

    @pytest.mark.parametrize(
        ("explore", "exploit", "seeds"),
        [(0.0, 1.0, {"c0", "c1"}), (1.0, 0.0, {"c0", "c1", "c2"}), (0.0, 0.0, {"c0", "c1", "c2", ORIGINAL})],
    )
    def test_ratios_decide_what_a_seed_is_drawn_from(self, explore: float, exploit: float, seeds: set[str]) -> None:
        pool = filled(Pool(), *(node(number, 1.0 + number) for number in range(3)), ratio=ByRatio(explore, exploit, 2))
        draws = [pool.draw() for _ in range(60)]
        assert {draw.seed for draw in draws} == seeds
        assert all(draw.inspirations == (("c1",) if draw.seed == "c0" else ("c0",)) for draw in draws)

    def test_an_empty_pool_draws_the_original(self) -> None:
        assert filled(Pool()).draw().seed == ORIGINAL


def test_every_member_of_a_drawable_set_has_the_same_chance_after_removals() -> None:
    names, rng = DrawableSet(), random.Random(1)
    for name in "abcde":
        names.add(name)
    names.discard("b")
    names.discard("e")
    names.add("a")
    drawn = [names.draw(rng) for _ in range(3000)]
    assert all(900 < drawn.count(name) < 1100 for name in "acd")
    assert len(names) == 3


class Waiting:
    """Refused candidates that wait for repairs, beside attempts at the original model."""

    def __init__(self, order: str, *refused: Node, share: float = 1.0, attempts: int = 2, cost: int = 1) -> None:
        self.tree = CandidateTree()
        options = Deferred(attempts, FixOrder(order), share)
        self.selection = DeferredRepairs(options, OriginalSelection(cost), self.tree, forgets=False)
        for each in refused:
            self.join(each)

    def join(self, node: Node) -> None:
        self.tree.add(node)
        self.selection.learn(node)

    def repaired(self, count: int, moves: int = 0, queries: int = 99) -> list[str]:
        return [move.under for move in self.selection.choose(count, queries, SearchState(moves=moves))]


class TestDeferredRepairs:
    def test_repairs_get_their_share_of_the_moves(self) -> None:
        half = Waiting("fair", *(node(number) for number in range(9)), share=0.5)
        assert half.repaired(4) == ["c0", "c1", ORIGINAL, ORIGINAL]
        quarter = Waiting("fair", *(node(number) for number in range(9)), share=0.25)
        assert [quarter.repaired(1, moves)[0] for moves in range(8)].count(ORIGINAL) == 6

    def test_without_queries_for_a_candidate_a_repair_still_comes(self) -> None:
        waiting = Waiting("fair", share=0.0, cost=2)
        assert not waiting.selection.can_choose(1)
        waiting.join(node(0))
        assert waiting.selection.can_choose(1)
        assert waiting.repaired(3, queries=1) == ["c0"]

    def test_an_answer_without_code_is_not_repaired(self) -> None:
        assert Waiting("fair", node(0, source="")).repaired(1) == [ORIGINAL]

    @pytest.mark.parametrize(("order", "then"), [("sample", "c0'"), ("fair", "c1")])
    def test_the_order_decides_what_comes_after_a_repair_that_failed(self, order: str, then: str) -> None:
        waiting = Waiting(order, node(0), node(1))
        assert waiting.repaired(1) == ["c0"]
        waiting.join(replace(node(0, attempt=1), under="c0"))
        assert waiting.repaired(1) == [then]

    def test_a_candidate_has_so_many_attempts_and_no_more(self) -> None:
        waiting = Waiting("sample", node(0), attempts=1)
        assert waiting.repaired(1) == ["c0"]
        waiting.join(replace(node(0, attempt=1), under="c0"))
        assert waiting.repaired(1) == [ORIGINAL]


class TestProgress:
    def test_gains_ask_for_small_steps_and_a_plateau_for_another_approach(self) -> None:
        progress = SearchProgress(Adaptive(3))
        progress.take(1, 5.0)
        assert (progress.scope_from("c0"), progress.scope_from(ORIGINAL)) == (Scope.TWEAK, Scope.ANY)
        progress.take(2, 4.99)  # within the noise: no gain
        assert progress.scope_from("c0") is Scope.TWEAK
        progress.take(1, float("inf"))
        assert progress.scope_from("c0") is Scope.REWRITE
        progress.take(1, 4.0)
        assert progress.scope_from("c0") is Scope.TWEAK

    def test_by_default_nothing_is_said(self) -> None:
        progress = SearchProgress(AnyScope())
        progress.take(50, float("inf"))
        assert progress.scope_from("c0") is Scope.ANY
