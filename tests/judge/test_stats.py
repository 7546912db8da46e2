"""Net times and their ratio: what a slow clock, a lying clock and a noisy transfer can and cannot change."""

import math
import random

import pytest

from pike.judge.calls.runner import CallTimes
from pike.judge.timing.stats import Ratio, TimingBlock, between_sessions, net_ns, ratio_of_blocks

EMPTY = CallTimes(100_000.0, 5_000.0)


def blocks(reference_ns: float, candidate_ns: float, noise_ns: float = 0.0, seed: int = 1) -> list[TimingBlock]:
    """Twelve pairs with honest clocks on both sides; `noise_ns` shakes the judge's clock alone."""
    chance = random.Random(seed)

    def clocks(net: float) -> CallTimes:
        return CallTimes(EMPTY.wall_ns + net + chance.gauss(0.0, noise_ns), EMPTY.child_ns + net)

    return [TimingBlock(clocks(0.0), clocks(reference_ns), clocks(candidate_ns)) for _ in range(12)]


def test_an_interval_holds_the_planted_ratio():
    found = ratio_of_blocks(blocks(1e7, 5e6, noise_ns=4e5), 500.0)
    assert found.low < 2.0 < found.high
    assert found.low > 1.8
    assert found.high < 2.2


@pytest.mark.parametrize("seed", range(20))
def test_a_model_shorter_than_the_noise_of_the_hand_over_is_not_called_infinitely_fast(seed):
    """A net time near zero by the judge's clock alone once gave a ratio of thousands."""
    found = ratio_of_blocks(blocks(2e6, 2e4, noise_ns=3e4, seed=seed), 500.0)
    assert 20 < found.value <= found.high < 105


def test_a_clock_that_runs_slow_in_the_child_gains_nothing():
    assert net_ns(CallTimes(1_100_000.0, 5_000.0), EMPTY, 500.0) == 1_000_000.0
    assert net_ns(CallTimes(1_100_000.0, 0.0), EMPTY, 500.0) == 1_000_000.0


def test_a_clock_that_runs_fast_in_the_child_costs_at_most_the_hand_over():
    assert net_ns(CallTimes(1_100_000.0, 9e15), EMPTY, 500.0) == 1_100_000.0


def test_no_time_is_shorter_than_the_resolution():
    assert net_ns(EMPTY, EMPTY, 2_000.0) == 2_000.0
    assert net_ns(CallTimes(90_000.0, 0.0), EMPTY, 2_000.0) == 2_000.0


def test_the_interval_knows_how_well_the_hand_over_is_known():
    def lying(noise_ns: float) -> float:
        """Width where the child's clock is of no help."""
        rows = [
            TimingBlock(CallTimes(row.empty.wall_ns, 0.0), CallTimes(row.reference.wall_ns, 0.0), CallTimes(2e5, 0.0))
            for row in blocks(2e6, 0.0, noise_ns)
        ]
        return ratio_of_blocks(rows, 500.0).relative_width

    assert lying(2e4) > 3 * lying(2e3)
    assert math.isfinite(lying(0.0))


def test_an_interval_covers_what_differs_between_sessions_where_a_call_is_short():
    """Once 1.038 with an interval from 1.02 to 1.068 was found for equal code of 80 us."""
    seen = Ratio(1.038, 1.020, 1.068)
    assert between_sessions(seen, 80_000.0).low < 1.01
    assert between_sessions(seen, 5e6).low == pytest.approx(seen.low, rel=1e-4)
    planted = between_sessions(Ratio(1.11, 1.08, 1.14), 80_000.0)
    assert planted.value == 1.11
    assert planted.low > 1.01
