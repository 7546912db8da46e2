"""In what state a GPU was beside each block, and which pairs of blocks that spoils.

Knows what may hold a GPU's clocks down, which of that is ordinary, and how clocks of two blocks are compared. Does not
know how a state is read (`nvml`) nor what the blocks measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pike.core.evaluation import DeviceState
from pike.evaluate.stats import median

CLOCK_SHARE = 0.03
"""A pair of blocks counts while the ratio of its two clocks differs by at most this share from the session's usual."""
CLOCK_CHANGED = "a change of the clock"


class Reason(StrEnum):
    """What may hold a GPU's clocks down, by NVML's list of clocks-event reasons."""

    IDLE = "idle"
    APPLICATION_CLOCKS = "application clocks"
    POWER_CAP = "power cap"
    HARDWARE_SLOWDOWN = "hardware slowdown"
    SYNC_BOOST = "sync boost"
    SOFTWARE_THERMAL = "software thermal slowdown"
    HARDWARE_THERMAL = "hardware thermal slowdown"
    POWER_BRAKE = "power brake"
    DISPLAY_CLOCKS = "display clocks"
    OTHER = "another reason"


SPOILING = (Reason.HARDWARE_SLOWDOWN, Reason.HARDWARE_THERMAL, Reason.POWER_BRAKE, Reason.SOFTWARE_THERMAL)
"""The card protects itself: NVML's reference says of the three hardware reasons that they cut the core clocks to half
or less, and of the software one that it keeps chip or memory from overheating. They come from what ran before and from
the room, not from the block. The others are settings (application and display clocks, sync boost), the lack of load
(idle), or what this load itself costs: at the power limit a heavy program always runs at a lower clock, and that is its
speed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a GPU at one moment; a quantity is None where the driver does not tell it."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    reasons: tuple[Reason, ...] = ()


class DeviceReader(Protocol):
    """Where readings come from."""

    def read(self) -> Reading:
        """The state now; takes up to some milliseconds and changes nothing."""
        ...


class ScriptedReader:
    """A reader without a GPU: the given readings in order, and the last one again and again."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._coming = list(readings)

    def read(self) -> Reading:
        """The next reading."""
        return self._coming.pop(0) if len(self._coming) > 1 else self._coming[0]


@dataclass(frozen=True, slots=True)
class PairState:
    """The readings at the ends of the two blocks of a pair."""

    reference: Reading
    candidate: Reading

    @property
    def clock_ratio(self) -> float | None:
        """Clock of the reference's block over that of the candidate's, None where one is unknown."""
        if not self.reference.sm_mhz or not self.candidate.sm_mhz:
            return None
        return self.reference.sm_mhz / self.candidate.sm_mhz


def spoiled(pairs: Sequence[PairState | None]) -> list[str]:
    """What spoiled each pair, an empty text where nothing did.

    Two sides may run at different clocks throughout, because one draws more power: that is part of their speed. A pair
    is spoiled when its clocks differ in another way than those of most pairs do, or when the card protected itself.
    """
    ratios = [pair.clock_ratio for pair in pairs if pair is not None]
    known = [ratio for ratio in ratios if ratio is not None]
    usual = median(known) if known else 1.0
    return [_why(pair, usual) if pair is not None else "" for pair in pairs]


def summary(counted: Sequence[PairState | None], every: Sequence[PairState | None]) -> DeviceState | None:
    """The state over a session, None where there are no readings.

    Args:
        counted: pairs that count, whose median clocks are reported.
        every: all pairs, whose extremes and reasons are reported.
    """
    whole = [pair for pair in every if pair is not None]
    if not whole:
        return None
    ours = [pair for pair in counted if pair is not None]
    readings = [reading for pair in whole for reading in (pair.reference, pair.candidate)]
    return DeviceState(
        reference_sm_mhz=_middle(pair.reference.sm_mhz for pair in ours),
        candidate_sm_mhz=_middle(pair.candidate.sm_mhz for pair in ours),
        memory_mhz=_middle(reading.memory_mhz for pair in ours for reading in (pair.reference, pair.candidate)),
        most_celsius=max((one.celsius for one in readings if one.celsius is not None), default=None),
        most_watts=max((one.watts for one in readings if one.watts is not None), default=None),
        reasons=tuple(reason.value for reason in Reason if any(reason in one.reasons for one in readings)),
        spoiled=tuple(sorted(Counter(filter(None, spoiled(every))).items())),
    )


def _why(pair: PairState, usual: float) -> str:
    for reason in SPOILING:
        if reason in pair.reference.reasons or reason in pair.candidate.reasons:
            return reason.value
    ratio = pair.clock_ratio
    return CLOCK_CHANGED if ratio is not None and abs(ratio / usual - 1.0) > CLOCK_SHARE else ""


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
