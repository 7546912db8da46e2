"""Net times and ratios of interleaved timings, with bootstrap intervals.

The unit of analysis is the block, because calls inside one are not independent. The transfer is
subtracted inside the bootstrap, so that a short model's interval shows how well it is known.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pike.judge.calls.runner import CallTimes

_RESAMPLES = 2_000
_BOOTSTRAP_SEED = 20_25
_NOTHING_CERTAIN = 0.01
_NORMAL_95, _SESSION_NS = 1.96, 1_000.0
"""One standard deviation between sessions, as `benchmarks/equal_pairs.py` shows it on a CPU."""
_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TimingBlock:
    """Medians of one pair of blocks: empty transfers, the reference, the candidate."""

    empty: CallTimes
    reference: CallTimes
    candidate: CallTimes


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """Width of the interval over the value."""
        return (self.high - self.low) / self.value


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return float(statistics.median(values))  # numpy takes ten times as long for a few


def middle_clocks(calls: Sequence[CallTimes]) -> CallTimes:
    """The median of each clock over at least one call."""
    return CallTimes(median([call.wall_ns for call in calls]), median([call.child_ns for call in calls]))


def half_spread(values: Sequence[float]) -> float:
    """Half the distance between the quartiles of at least one value."""
    low, high = np.percentile(np.asarray(values), [25.0, 75.0])
    return float(high - low) / 2.0


def net_ns(call: CallTimes, empty: CallTimes, resolution_ns: float) -> float:
    """The time of a call beyond an empty transfer, at least the resolution.

    It is the longer of both clocks' net times; see `_net`.
    """
    wall, child = np.asarray(call.wall_ns), np.asarray(call.child_ns)
    return float(_net(wall, child, empty.wall_ns, empty.child_ns, resolution_ns))


def ratio_of_blocks(blocks: Sequence[TimingBlock], resolution_ns: float) -> Ratio:
    """Reference over candidate from at least one pair of blocks.

    The estimate is exp(median over blocks of the log ratio of net times). The interval is a
    percentile bootstrap over blocks, their empty transfers included. Its seed is fixed, so that a
    journal always gives the same figure. No net time counts as shorter than the resolution.
    """
    whole = np.arange(len(blocks))[None, :]
    draws = np.random.default_rng(_BOOTSTRAP_SEED).integers(0, len(blocks), (_RESAMPLES, len(blocks)))
    estimate = float(_log_ratios(blocks, whole, resolution_ns)[0])
    low, high = np.percentile(_log_ratios(blocks, draws, resolution_ns), [2.5, 97.5])
    return Ratio(math.exp(estimate), math.exp(float(low)), math.exp(float(high)))


def between_sessions(ratio: Ratio, shorter_ns: float) -> Ratio:
    """The ratio with an interval that also covers by how much sessions on equal code differ.

    Where a process happens to lie costs or saves about a microsecond of every call of a session.
    `shorter_ns` is the shorter of both net times.
    """
    other = _NORMAL_95 * _SESSION_NS / shorter_ns
    below = math.hypot(math.log(ratio.value / ratio.low), other)
    above = math.hypot(math.log(ratio.high / ratio.value), other)
    return Ratio(ratio.value, ratio.value * math.exp(-below), ratio.value * math.exp(above))


def doubted(ratio: Ratio, reference_share: float, candidate_share: float) -> Ratio:
    """The ratio with an interval for a busy machine: a side's own work lasted no longer than its
    calls, and no shorter than what is left of them without the share (0 to 1) that it waited."""
    low, high = (max(_NOTHING_CERTAIN, 1.0 - share) for share in (reference_share, candidate_share))
    return Ratio(ratio.value, ratio.low * low, ratio.high / high)


def certain(ratio: Ratio) -> Ratio:
    """The ratio with the value nearest to 1 in its interval, which claims nothing more."""
    return Ratio(min(max(1.0, ratio.low), ratio.high), ratio.low, ratio.high)


def _log_ratios(blocks: Sequence[TimingBlock], draws: npt.NDArray[np.int64], resolution_ns: float) -> _Array:
    """The median log ratio of each draw (rows of block numbers)."""
    empty_wall, empty_child = (_middle(values[draws]) for values in _columns([block.empty for block in blocks]))
    nets = []
    for side in ([block.reference for block in blocks], [block.candidate for block in blocks]):
        wall, child = _columns(side)
        nets.append(_net(wall[draws], child[draws], empty_wall, empty_child, resolution_ns))
    result: _Array = np.median(np.log(nets[0]) - np.log(nets[1]), axis=1)
    return result


def _net(
    wall: _Array, child: _Array, empty_wall: _Array | float, empty_child: _Array | float, resolution: float
) -> _Array:
    """The longer of both clocks' net times, so that a slow clock gains nothing.

    The judge's clock is right, but coarse where a call is shorter than the transfer. The child's
    clock may lengthen such a time, but never shorten it, and never beyond the judge's whole wall
    time.
    """
    own = np.minimum(child - empty_child, wall)
    return np.maximum(np.maximum(wall - empty_wall, own), resolution)


def _columns(clocks: Sequence[CallTimes]) -> tuple[_Array, _Array]:
    return np.array([clock.wall_ns for clock in clocks]), np.array([clock.child_ns for clock in clocks])


def _middle(values: _Array) -> _Array:
    result: _Array = np.median(values, axis=1, keepdims=True)
    return result
