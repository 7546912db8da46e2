"""Medians and bootstrap intervals of interleaved timings.

Knows arithmetic only; the unit of analysis is the block, because calls inside a block are not independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2_000
_BOOTSTRAP_SEED = 20_25


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


def median(values: list[float]) -> float:
    """The median of at least one value."""
    return float(np.median(np.asarray(values)))


def ratio_of_blocks(reference_ms: list[float], candidate_ms: list[float]) -> Ratio:
    """Reference over candidate from paired block medians (milliseconds, positive, same length, at least one).

    The estimate is exp(median of the log ratios); the interval is a percentile bootstrap over blocks with a fixed seed,
    so that a journal always gives the same figure.
    """
    logs = np.log(np.asarray(reference_ms)) - np.log(np.asarray(candidate_ms))
    draws = np.random.default_rng(_BOOTSTRAP_SEED).integers(0, len(logs), (_RESAMPLES, len(logs)))
    low, high = np.percentile(np.median(logs[draws], axis=1), [2.5, 97.5])
    return Ratio(math.exp(float(np.median(logs))), math.exp(float(low)), math.exp(float(high)))
