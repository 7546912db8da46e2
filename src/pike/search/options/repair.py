"""When a refused candidate is repaired, by which role, and in which order.

Knows the kinds of repair and their dials. Does not know verdicts.
"""

from dataclasses import dataclass
from typing import ClassVar

from pike.core.step import Role
from pike.search.options.ranges import Choice, at_least, between_0_and

_WHERE = "strategy.repair"


class FixOrder(Choice):
    """Which refused candidate is repaired first, and which sample gets scarce queries."""

    SAMPLE = "sample"
    """Published: the first sample takes all its attempts, then the second; late samples starve."""
    FAIR = "fair"
    """The sample with the fewest attempts first."""


@dataclass(frozen=True, slots=True)
class ErrorFixing:
    """PIKE's error fixing agent, at the strategy's temperature."""

    kind: ClassVar[str] = "efa"
    role: ClassVar[Role] = Role.FIX


@dataclass(frozen=True, slots=True)
class Debug:
    """STARK's debugging agent, which also sees the plan and, with `windows`, the siblings."""

    kind: ClassVar[str] = "debug"
    role: ClassVar[Role] = Role.DEBUG

    temperature: float = 0.1

    def __post_init__(self) -> None:
        between_0_and(f"{_WHERE}.fixer", self, temperature=2.0)


@dataclass(frozen=True, slots=True)
class NoRepair:
    """Refused candidates are not repaired."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True)
class Immediate:
    """At once, within the sample.

    Attributes:
        attempts: the most repairs of one sample.
        order: which sample is repaired first.
        fixer: the role that repairs.
    """

    kind: ClassVar[str] = "immediate"

    attempts: int = 5
    order: FixOrder = FixOrder.SAMPLE
    fixer: ErrorFixing | Debug = ErrorFixing()

    def __post_init__(self) -> None:
        at_least(_WHERE, self, attempts=1)


@dataclass(frozen=True, slots=True)
class Deferred:
    """By moves of their own, beside those of the selection.

    Attributes:
        attempts: the most repairs that go back to one first candidate.
        order: which candidate is repaired first.
        share: the part of all moves that repairs take while any candidate waits.
        fixer: the role that repairs.
    """

    kind: ClassVar[str] = "deferred"

    attempts: int = 5
    order: FixOrder = FixOrder.SAMPLE
    share: float = 0.5
    fixer: ErrorFixing | Debug = ErrorFixing()

    def __post_init__(self) -> None:
        at_least(_WHERE, self, attempts=1)
        between_0_and(_WHERE, self, share=1.0)


@dataclass(frozen=True, slots=True)
class Chosen:
    """By moves that the selection chooses itself; only for `epsilon-greedy` and `latest`.

    Attributes:
        attempts: the most repairs that go back to one first candidate.
        fixer: the role that repairs.
    """

    kind: ClassVar[str] = "chosen"

    attempts: int = 5
    fixer: ErrorFixing | Debug = ErrorFixing()

    def __post_init__(self) -> None:
        at_least(_WHERE, self, attempts=1)
