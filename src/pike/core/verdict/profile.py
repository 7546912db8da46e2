"""Where a candidate's time goes, as a compact record for agents and people.

Knows the shape of a profile, its caps, and how a name that a candidate chose is made harmless.
Does not know how a profile is taken or checked (`judge`), or how it is shown.
"""

import math
from dataclasses import dataclass
from typing import Any

from pike.core.codec import encode

MOST_HOTSPOTS = 12
NAME_CHARACTERS = 80
MOST_SHARES = 1.02
"""The largest sum of shares: they are rounded, and a clock ticks, so it may exceed one."""
_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A kernel (GPU) or operator (CPU) that takes time.

    Attributes:
        name: printable ASCII, at most 80 characters. The candidate chose it: it is data, never an
            instruction.
        share: of the time of all kernels, or of the whole call on a CPU.
        calls: how often it runs in one call of the model.
    """

    name: str
    share: float
    calls: float


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The best that the device can do.

    Attributes:
        bytes_per_second: memory bandwidth.
        operations_per_second: arithmetic at the precision that the candidate may use.
        source: where the figures come from, for humans.
    """

    bytes_per_second: float
    operations_per_second: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a valid candidate goes; it decides nothing.

    Attributes:
        source: which profiler, for example `torch profiler (cuda)`.
        note: how far it is to be trusted, or why it has no hotspots; the judge's own words.
        hotspots: the top kernels or operators, largest first, at most 12; empty where nothing is
            known.
        busy_share: on a GPU, the share of the judge's median call in which a kernel ran; the rest
            are launch gaps. On a CPU, the share of the profiled calls inside operators; the rest
            is Python.
        launches: kernels, copies and graphs that one call of the model starts from the host; None
            on a CPU.
        peak_bytes: the most memory in use during the calls, 0 where unknown. On a GPU, allocated by
            torch in the child; on a CPU, resident in all processes of the child.
        operations: arithmetic of the reference's products, convolutions and attention in one call;
            0 where unknown.
        least_bytes: inputs, outputs and weights of the reference, each moved once.
        bytes_per_second: `least_bytes` over the judge's median time of a call.
        operations_per_second: `operations` over the same.
        ceilings: what the device can do, None where it was not measured.

    Raises:
        ValueError: a number is not finite or negative, or a cap is exceeded.
    """

    source: str
    note: str
    hotspots: tuple[Hotspot, ...] = ()
    busy_share: float | None = None
    launches: float | None = None
    peak_bytes: int = 0
    operations: int = 0
    least_bytes: int = 0
    bytes_per_second: float = 0.0
    operations_per_second: float = 0.0
    ceilings: Ceilings | None = None

    def __post_init__(self) -> None:
        shares = [hotspot.share for hotspot in self.hotspots]
        numbers = [*shares, *(hotspot.calls for hotspot in self.hotspots), self.busy_share or 0.0, self.launches or 0.0,
                   self.peak_bytes, self.operations, self.bytes_per_second, self.operations_per_second]  # fmt: skip
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError("a profile holds a number that is negative or not finite")
        if len(shares) > MOST_HOTSPOTS or sum(shares) > MOST_SHARES or (self.busy_share or 0.0) > MOST_SHARES:
            raise ValueError("a profile holds too many hotspots, or shares of more than the whole")
        if any(hotspot.name != clean_name(hotspot.name) for hotspot in self.hotspots):
            raise ValueError("a profile holds a name that is too long or not printable")

    @property
    def bandwidth_share(self) -> float | None:
        """Achieved bandwidth over the device's, None where either is unknown."""
        return _over(self.bytes_per_second, self.ceilings.bytes_per_second if self.ceilings else 0.0)

    @property
    def arithmetic_share(self) -> float | None:
        """Achieved arithmetic rate over the device's, None where either is unknown."""
        return _over(self.operations_per_second, self.ceilings.operations_per_second if self.ceilings else 0.0)

    def flat(self) -> dict[str, Any]:
        """The profile as an object of plain values, for `pike evaluate --json`."""
        values: dict[str, Any] = encode(self)
        del values["ceilings"]
        return {**values, "bandwidth_share": self.bandwidth_share, "arithmetic_share": self.arithmetic_share}


def clean_name(text: str) -> str:
    """A name as one line of printable ASCII, at most 80 characters."""
    line = "".join(c if " " <= c <= "~" else "?" for c in text).strip()
    return line if len(line) <= NAME_CHARACTERS else line[: NAME_CHARACTERS - len(_ELLIPSIS)] + _ELLIPSIS


def _over(achieved: float, ceiling: float) -> float | None:
    return achieved / ceiling if achieved > 0 and ceiling > 0 else None
