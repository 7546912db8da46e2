"""The time below which no right candidate can lie: what a task needs at least, over what the device can do at most.

Knows the floor and when a measured time is implausible. Does not know how ceilings are measured (`ceilings`) nor what
follows for a candidate (`judge`). Everything errs in the candidate's favour: bytes that a cache may hold do not count,
a ceiling may be beaten by half, and a floor that lies above the reference's own time is taken for a wrong declaration.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.core.evaluation import Timing, Tolerance
from pike.core.task import LeastWork
from pike.evaluate.ceilings import Ceilings, Rates
from pike.evaluate.child.layout import Layout

SLACK = 1.5
"""How many times more than was measured a device is taken to be capable of: torch's kernels reach two thirds of a
device's limits at least, and one level of Strassen's algorithm saves an eighth of the operations."""
_NARROWER = 2
"""So many times fewer bytes than declared may hold the same numbers: an error budget with room for it, such as that of
a convolution which the reference itself does in TF32, admits half precision. For the same reason the fastest arithmetic
counts, whatever the declared precision."""
_CACHES = 3
"""So many times its cache a call may save: inputs that still lie there, outputs that have not left it when the clock
stops, and their copy into the judge's buffer, which the empty hand-over makes from colder memory."""
_HAND_OVER_MS = 0.01
"""The hand-over that is subtracted is known no better than this."""
DISPROVED = "declared-work-disproved"
"""Label: the reference itself takes less time than the task's declared work should need, so the floor is not used."""
UNMEASURED = "floor-not-measured"
"""Label: the device had no memory left to measure its ceilings."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time of one call.

    Attributes:
        ms: milliseconds.
        by: what takes that time, in words.
    """

    ms: float
    by: str

    def words(self, timing: Timing) -> str:
        """Why an audited time below the floor is not believed."""
        together = timing.throughput
        more = f", {together.candidate_ms:.3g} ms each of {together.inputs} released together" if together else ""
        return (
            f"a call takes at most {longest_ms(timing):.3g} ms{more}, and less than {self.ms:.3g} ms is not possible "
            f"here ({self.by}); an audit found its outputs right and its time no longer"
        )


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a timing found.

    Attributes:
        below: the floor that it lies below, None where it is plausible or nothing is known.
        label: what is noticed and refuses nothing, may be empty.
    """

    below: Floor | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """What is known about the least work of a task's calls.

    Attributes:
        declared: by the task.
        output_bytes: size of the outputs, 0 where the reference returns memory of its inputs.
        written: counts the bytes that every call must write; takes two calls of the reference.
    """

    declared: LeastWork
    output_bytes: int
    written: Callable[[], int]

    def under(self, tolerance: Tolerance, from_bytes: int) -> LeastWork:
        """What a candidate does at least that is right under a tolerance.

        Inputs and weights do not count unless they are declared: a model may ignore most of them. The published
        tolerance accepts answers that skip the work.

        Args:
            tolerance: the rule.
            from_bytes: fewer bytes are of no interest and not looked into.
        """
        if tolerance is Tolerance.PAPER:
            return LeastWork()
        written = self.written() if self.output_bytes > from_bytes else 0
        return LeastWork(max(self.declared.bytes // _NARROWER, written), self.declared.operations)


def written_bytes(one: torch.Tensor, other: torch.Tensor, outputs: Layout) -> int:
    """How much of the largest output differs between the snapshots of two calls, whole elements counted.

    What stays the same may lie ready in a buffer, such as the zeros of a mask. Only the largest output counts, because
    several may be one tensor.
    """
    counts = [0]
    for leaf in outputs.leaves:
        if leaf.nbytes:
            ours, theirs = (taken[leaf.offset : leaf.offset + leaf.nbytes] for taken in (one, other))
            differ = (ours != theirs).view(-1, leaf.dtype.itemsize).any(1)
            counts.append(int(differ.sum()) * leaf.dtype.itemsize)
    return max(counts)


def longest_ms(timing: Timing) -> float:
    """The longest time of a candidate's call that its interval allows."""
    return max(timing.candidate_ms, timing.reference_ms / timing.speedup_ci95[0])


class Roofline:
    """The floors of one device; its ceilings are measured when a time first needs them, and then kept."""

    def __init__(self, ceilings: Ceilings) -> None:
        self._ceilings = ceilings
        self._memory = 0.0
        self._rates: Rates | None = None

    def bytes_per_second(self, again: bool = False) -> float:
        """What memory was measured to do; measured at the first question, or `again`, when the larger value is kept.

        Raises:
            torch.OutOfMemoryError: there is no room to measure it.
        """
        if again or not self._memory:
            self._memory = max(self._memory, self._ceilings.bytes_per_second())
        return self._memory

    def rates(self, again: bool = False) -> Rates:
        """What arithmetic was measured to do, likewise.

        Raises:
            torch.OutOfMemoryError: there is no room to measure it.
        """
        if again or self._rates is None:
            new = self._ceilings.rates()
            self._rates = new if self._rates is None else self._rates.larger(new)
        return self._rates

    def look(self, timing: Timing, need: Need, tolerance: Tolerance) -> Look:
        """Whether a time is plausible. The device must be idle and leased alone, for it may be measured.

        Nothing is measured for a candidate that is no faster than the reference, which does the work. A ceiling counts
        against a candidate only after it was measured again beside it, and the larger one holds.
        """
        if timing.speedup_ci95[1] <= 1.0:
            return Look()
        try:
            work = need.under(tolerance, self._held_in_caches())
            floor = self._floor(work, again=False)
            if floor is None or not _is_below(longest_ms(timing), floor):
                return Look()
            floor = self._floor(work, again=True)
        except torch.OutOfMemoryError:
            return Look(label=UNMEASURED)
        if floor is None or not _is_below(longest_ms(timing), floor):
            return Look()
        return Look(label=DISPROVED) if _is_below(timing.reference_ms, floor) else Look(floor)

    def _floor(self, work: LeastWork, again: bool) -> Floor | None:
        floors = [self._by_memory(work.bytes, again), self._by_arithmetic(work.operations, again)]
        return max((floor for floor in floors if floor is not None), key=lambda floor: floor.ms, default=None)

    def _held_in_caches(self) -> int:
        """Bytes that need not pass the memory; where the caches are unknown they may hold everything."""
        return _CACHES * self._ceilings.cache_bytes() or sys.maxsize

    def _by_memory(self, wanted: int, again: bool) -> Floor | None:
        moved = wanted - self._held_in_caches()
        if moved <= 0:
            return None
        rate = self.bytes_per_second(again)
        words = f"{moved:.3g} bytes beyond the caches at {SLACK:g} times the measured {rate / 1e9:.3g} GB/s"
        return Floor(1e3 * moved / (SLACK * rate), words)

    def _by_arithmetic(self, wanted: int, again: bool) -> Floor | None:
        if not wanted:
            return None
        rate = self.rates(again).most
        words = f"{wanted:.3g} operations at {SLACK:g} times the measured {rate / 1e12:.3g} TFLOP/s"
        return Floor(1e3 * wanted / (SLACK * rate), words)


def _is_below(ms: float, floor: Floor) -> bool:
    return ms + _HAND_OVER_MS < floor.ms
