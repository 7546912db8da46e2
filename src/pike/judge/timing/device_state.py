"""The state of a GPU beside each block, and which pairs of blocks it spoils.

Does not know how a state is read (`nvml`) nor what the blocks measure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pike.core.verdict.evaluation import DeviceState
from pike.judge.timing.stats import median

CLOCK_SHARE = 0.03
"""The most by which the clocks' ratio of a pair that counts differs from the median."""
CLOCK_CHANGED = "a change of the clock"


class Reason(StrEnum):
    """Why a GPU's clocks are held down, by NVML's list of clocks-event reasons."""

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
"""The card protects itself, because of what ran before or of the room's heat. By NVML's reference
the hardware reasons halve the core clocks at least, and the software one prevents overheating. The
other reasons are settings, the lack of load, or the price of this load itself. At the power limit a
heavy program always runs at a lower clock, and that is its speed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a GPU at one moment; a quantity is None if the driver does not tell it."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class PairState:
    """The readings at the ends of the two blocks of a pair."""

    reference: Reading
    candidate: Reading

    @property
    def clock_ratio(self) -> float | None:
        """Clock of the reference's block over that of the candidate's; None if one is unknown."""
        if not self.reference.sm_mhz or not self.candidate.sm_mhz:
            return None
        return self.reference.sm_mhz / self.candidate.sm_mhz


def spoiled(pairs: Sequence[PairState | None]) -> list[str]:
    """The reason that spoiled each pair; empty if there is none.

    Two sides may run at different clocks throughout because one draws more power: that is part of
    their speed. A pair is spoiled if its clocks differ in another way than those of most pairs, or
    if the card protected itself.
    """
    ratios = [pair.clock_ratio for pair in pairs if pair is not None]
    known = [ratio for ratio in ratios if ratio is not None]
    usual = median(known) if known else 1.0
    return [_why(pair, usual) if pair is not None else "" for pair in pairs]


def summary(counted: Sequence[PairState | None], every: Sequence[PairState | None]) -> DeviceState | None:
    """Median clocks of counted pairs, extremes and reasons of every one; None without readings."""
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
