"""Net times and ratios of interleaved timings, with bootstrap intervals.

Knows arithmetic only. The unit of analysis is the block, because calls inside a block are not independent. What the
hand-over itself costs is subtracted inside the bootstrap, so that the interval of a short model shows how well the
hand-over is known.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_RESAMPLES = 2_000
_BOOTSTRAP_SEED = 20_25
_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clocks:
    """What both clocks say about the same calls, in nanoseconds: the judge's, and the child's own."""

    wall_ns: float
    child_ns: float


@dataclass(frozen=True, slots=True)
class Block:
    """Medians of one pair of blocks: empty hand-overs, the reference, the candidate."""

    empty: Clocks
    reference: Clocks
    candidate: Clocks


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


def middle_clocks(calls: Sequence[Clocks]) -> Clocks:
    """The median of each clock over at least one call."""
    return Clocks(median([call.wall_ns for call in calls]), median([call.child_ns for call in calls]))


def half_spread(values: Sequence[float]) -> float:
    """Half the distance between the quartiles of at least one value."""
    low, high = np.percentile(np.asarray(values), [25.0, 75.0])
    return float(high - low) / 2.0


def net_ns(call: Clocks, empty: Clocks, resolution_ns: float) -> float:
    """What a call took beyond an empty hand-over; see `_net`."""
    return float(_net(np.asarray(call.wall_ns), np.asarray(call.child_ns), empty.wall_ns, empty.child_ns,
                      resolution_ns))  # fmt: skip


def ratio_of_blocks(blocks: Sequence[Block], resolution_ns: float) -> Ratio:
    """Reference over candidate from at least one pair of blocks.

    The estimate is exp(median over blocks of the log ratio of net times). The interval is a percentile bootstrap over
    blocks, their empty hand-overs included, with a fixed seed, so that a journal always gives the same figure.

    Args:
        blocks: medians of each pair of blocks.
        resolution_ns: no net time counts as shorter than this.
    """
    whole = np.arange(len(blocks))[None, :]
    draws = np.random.default_rng(_BOOTSTRAP_SEED).integers(0, len(blocks), (_RESAMPLES, len(blocks)))
    estimate = float(_log_ratios(blocks, whole, resolution_ns)[0])
    low, high = np.percentile(_log_ratios(blocks, draws, resolution_ns), [2.5, 97.5])
    return Ratio(math.exp(estimate), math.exp(float(low)), math.exp(float(high)))


def _log_ratios(blocks: Sequence[Block], draws: npt.NDArray[np.int64], resolution_ns: float) -> _Array:
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
    """The longer of both clocks' net times, so that a clock that runs slow gains nothing.

    The judge's clock is right but coarse where a call is shorter than the hand-over. The child's may lengthen such a
    time, never shorten it, and never beyond the judge's whole wall time.
    """
    own = np.minimum(child - empty_child, wall)
    return np.maximum(np.maximum(wall - empty_wall, own), resolution)


def _columns(clocks: Sequence[Clocks]) -> tuple[_Array, _Array]:
    return np.array([clock.wall_ns for clock in clocks]), np.array([clock.child_ns for clock in clocks])


def _middle(values: _Array) -> _Array:
    result: _Array = np.median(values, axis=1, keepdims=True)
    return result
