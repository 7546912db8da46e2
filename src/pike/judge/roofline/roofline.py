"""The floor: the least work of a task over the most that the device can do.

Everything errs in the candidate's favour: bytes that a cache may hold do not count, and a ceiling
may be beaten by half. A floor above the reference's own time counts as a wrong declaration.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.core.task import LeastWork
from pike.core.verdict.evaluation import Timing, Tolerance
from pike.judge.child.memory.layout import Layout
from pike.judge.roofline.ceilings import MeasuredCeilings, Rates

SLACK = 1.5
"""A device may do so many times more than was measured. Torch's kernels reach at least two thirds
of its limits, and one level of Strassen's algorithm saves an eighth of the operations."""
_NARROWER = 2
"""The same numbers may fit in so many times fewer bytes than declared. A wide error budget admits
half precision, for example that of a convolution in TF32. For the same reason the fastest
arithmetic counts, at any declared precision."""
_CACHES = 3
"""A call may save so many times its cache. Inputs may still lie there, outputs may not have left it
when the clock stops, and the empty transfer copies them from colder memory."""
_TRANSFER_MS = 0.01
"""The uncertainty of the transfer time that is subtracted."""
DISPROVED = "declared-work-disproved"
"""Label: the reference is faster than its declared work allows, so the floor is not used."""
UNMEASURED = "floor-not-measured"
"""Label: the device had no memory left to measure its ceilings."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time of one call, and what takes that time, in words."""

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
class TimeCheck:
    """The floor that a timing lies below, if it does, and a label that refuses nothing."""

    below: Floor | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """The least work of a task's calls.

    Attributes:
        declared: the work that the task declares.
        output_bytes: size of the outputs, 0 if the reference returns memory of its inputs.
        written: counts the bytes that every call must write, by two calls of the reference.
    """

    declared: LeastWork
    output_bytes: int
    written: Callable[[], int]

    def under(self, tolerance: Tolerance, from_bytes: int) -> LeastWork:
        """The least work of a candidate that is right under a tolerance.

        Inputs and weights count only if they are declared, because a model may ignore most of them.
        The published tolerance accepts answers that skip the work. Outputs of fewer
        than `from_bytes` bytes do not count.
        """
        if tolerance is Tolerance.PAPER:
            return LeastWork()
        written = self.written() if self.output_bytes > from_bytes else 0
        return LeastWork(max(self.declared.bytes // _NARROWER, written), self.declared.operations)


def written_bytes(one: torch.Tensor, other: torch.Tensor, outputs: Layout) -> int:
    """Bytes of the largest output that differ between the snapshots of two calls, by whole
    elements.

    Elements that stay the same, such as the zeros of a mask, may lie ready in a buffer. Only the
    largest output counts, because several may be one tensor.
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
    """The floors of one device; its ceilings are measured when first needed, and then kept."""

    def __init__(self, ceilings: MeasuredCeilings) -> None:
        self._ceilings = ceilings
        self._memory = 0.0
        self._rates: Rates | None = None

    def bytes_per_second(self, again: bool = False) -> float:
        """The bandwidth of memory; measured at the first question or `again`, the larger value is
        kept.

        Raises:
            torch.OutOfMemoryError: there is no room to measure it.
        """
        if again or not self._memory:
            self._memory = max(self._memory, self._ceilings.bytes_per_second())
        return self._memory

    def rates(self, again: bool = False) -> Rates:
        """The rates of arithmetic; measured, kept and raising likewise."""
        if again or self._rates is None:
            new = self._ceilings.rates()
            self._rates = new if self._rates is None else self._rates.larger(new)
        return self._rates

    def check(self, timing: Timing, need: Need, tolerance: Tolerance) -> TimeCheck:
        """Check whether a time is plausible; the caller holds the idle device's lock exclusively.

        Nothing is measured for a candidate that is no faster than the reference, which does the
        work. A ceiling counts only after it was measured again beside the candidate; the larger
        value holds.
        """
        if timing.speedup_ci95[1] <= 1.0:
            return TimeCheck()
        try:
            work = need.under(tolerance, self._held_in_caches())
            floor = self._floor(work, again=False)
            if floor is None or not _is_below(longest_ms(timing), floor):
                return TimeCheck()
            floor = self._floor(work, again=True)
        except torch.OutOfMemoryError:
            return TimeCheck(label=UNMEASURED)
        if floor is None or not _is_below(longest_ms(timing), floor):
            return TimeCheck()
        return TimeCheck(label=DISPROVED) if _is_below(timing.reference_ms, floor) else TimeCheck(floor)

    def _floor(self, work: LeastWork, again: bool) -> Floor | None:
        floors = [self._by_memory(work.bytes, again), self._by_arithmetic(work.operations, again)]
        return max((floor for floor in floors if floor is not None), key=lambda floor: floor.ms, default=None)

    def _held_in_caches(self) -> int:
        """Bytes that need not pass the memory; unknown caches may hold everything."""
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
    return ms + _TRANSFER_MS < floor.ms
