"""The figures by which strategies are compared, by hand-computed examples."""

from __future__ import annotations

import pytest

from pike.reporting.campaign import busy_seconds
from pike.reporting.standings import Axis, Cut, NewBest, best_at, clamped_geomean, fast_share, standing, trajectory

RISES = (NewBest(0, 0.0, 0.8), NewBest(4, 0.5, 2.0), NewBest(9, 3.0, 3.0))


@pytest.mark.parametrize(
    ("cut", "best"),
    [
        (Cut(Axis.QUERIES, 3), 0.8),
        (Cut(Axis.QUERIES, 4), 2.0),
        (Cut(Axis.QUERIES, 100), 3.0),
        (Cut(Axis.USD, 0.49), 0.8),
        (Cut(Axis.USD, 2.99), 2.0),
        (Cut(), 3.0),
    ],
)
def test_the_best_at_a_cut_is_what_was_known_by_then(cut: Cut, best: float) -> None:
    assert best_at(RISES, cut) == best
    assert best_at((), cut) is None
    assert best_at(RISES[1:], Cut(Axis.QUERIES, 3)) is None


def test_a_failed_task_counts_as_1_when_clamped_and_not_at_all_when_not() -> None:
    found = standing("pike-b", Cut(), [[4.0, None], [0.5, 2.0]], reached=4)
    assert found.clamped.value == pytest.approx((4.0 * 1.0 * 1.0 * 2.0) ** 0.25)
    assert found.clamped.by_repeat == pytest.approx((2.0, 2.0**0.5))
    assert (found.clamped.low, found.clamped.high) == pytest.approx((2.0**0.5, 2.0))
    assert found.unclamped is not None
    assert found.unclamped.value == pytest.approx((4.0 * 0.5 * 2.0) ** (1 / 3))
    assert found.unclamped.by_repeat == pytest.approx((4.0, 1.0))
    assert [(p, spread.value) for p, spread in found.fast] == [(1.0, 0.5), (1.5, 0.5), (2.0, 0.25)]
    assert (found.failed, found.runs) == (1, 4)
    assert standing("none", Cut(), [[None]], reached=1).unclamped is None


def test_fast_p_is_strictly_above_p_over_all_tasks() -> None:
    assert fast_share([1.0, 1.01, None, 3.0], 1.0) == 0.5
    assert clamped_geomean([]) == 1.0


def test_a_trajectory_rises_where_a_run_rises() -> None:
    found = trajectory("pike-b", Axis.QUERIES, [RISES, (NewBest(4, 1.0, 8.0),), ()])
    assert [x for x, _ in found.points] == [0.0, 4.0, 9.0]
    assert [value for _, value in found.points] == pytest.approx([1.0, 16 ** (1 / 3), 24 ** (1 / 3)])


def test_time_in_which_two_runs_were_open_counts_once() -> None:
    assert busy_seconds([(0.0, 10.0), (5.0, 12.0), (6.0, 7.0), (20.0, 21.0)]) == 13.0
