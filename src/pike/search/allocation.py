"""Who gets how many of a round's queries: shares of seeds, ideas of samples, scarce fixes.

Knows arithmetic on counts and the state of one sample. Does not know verdicts or steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from pike.core.step import ORIGINAL, Role, Scope
from pike.search.choices import FixOrder
from pike.search.parts import Kin, Move


class Phase(Enum):
    """Where a sample stands."""

    PLANNED = auto()
    """Its next query is reserved and not asked yet."""
    RUNNING = auto()
    """A step of it is in flight."""
    FAILED = auto()
    """Its last candidate was refused and it has attempts left; it wants a fix."""
    CLOSED = auto()
    """Nothing more is asked for it."""


@dataclass(slots=True)
class Sample:
    """One line of work: a first candidate and the fixes it needed, or one deferred repair of an earlier one.

    Attributes:
        round: the round it belongs to; a deferred repair has that of the candidate which it goes back to.
        index: its place in the round, from 0.
        move: what it set out to do.
        begun: the round in which it was begun.
        reserved: queries that are set aside for it.
        idea: the brainstormed idea it starts from.
        scope: how far to go from the seed.
        inspirations: what its selection shows beside the seed.
        phase: where it stands.
        attempts: fixes asked so far.
        failing: id of the candidate to repair, empty before the first refusal.
        plan: the plan to carry out, empty before there is one.
        asked: whom its last step asked.
        result: the candidate it stands for by now, None before the first.
        original_ms: the original's time in its verdict, None where that is known or there is none.
    """

    round: int
    index: int
    move: Move
    begun: int = 0
    reserved: int = 1
    idea: str | None = None
    scope: Scope = Scope.ANY
    inspirations: tuple[str, ...] = ()
    phase: Phase = Phase.PLANNED
    attempts: int = 0
    failing: str = ""
    plan: str = ""
    asked: Role | None = None
    result: Kin | None = None
    original_ms: float | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Position in the order of samples."""
        return self.round, self.index

    @property
    def may_refund(self) -> bool:
        """Whether a query that is set aside for it can still turn out to be unnecessary: its plan may fail."""
        return not self.plan and self.reserved > (0 if self.phase is Phase.RUNNING else 1)


def even_split(total: int, parts: int) -> tuple[int, ...]:
    """`total` in `parts` shares that differ by at most one, the larger ones first: (10, 4) gives 3, 3, 2, 2."""
    base, larger = divmod(total, parts)
    return tuple(base + (part < larger) for part in range(parts))


def with_original(seeds: Sequence[str], top_k: int) -> tuple[str, ...]:
    """The seed slots of a round: while fewer than `top_k` are taken, the original model fills one, the last."""
    return tuple(seeds) if len(seeds) >= top_k else (*seeds, ORIGINAL)


def plan_seeds(slots: Sequence[str], size: int) -> tuple[str, ...]:
    """The seed of each of `size` samples, shared evenly over the slots."""
    shares = even_split(size, len(slots))
    return tuple(slot for slot, share in zip(slots, shares, strict=True) for _ in range(share))


def usable_ideas(ideas: Sequence[str], most: int) -> list[str]:
    """At most so many ideas; blanks do not count."""
    return [idea.strip() for idea in ideas if idea.strip()][:most]


def plan_ideas(ideas: Sequence[str], size: int) -> tuple[str | None, ...]:
    """The idea of each of `size` samples: in turn, so that the first ones come more often."""
    usable = usable_ideas(ideas, size)
    return tuple(usable[index % len(usable)] if usable else None for index in range(size))


def may_fix(sample: Sample, open_samples: Iterable[Sample], left: int, limit: int, order: FixOrder) -> bool:
    """Whether the next fix of `sample` can start now.

    The possible fixes of a round have one order (`order`), and scarce queries are meant for the first of them
    that turn out to be needed. A fix starts as soon as `left` covers it and every earlier one that may still
    be needed; otherwise it waits for the verdicts that decide this. So the fixes that are asked do not
    depend on the order in which verdicts come in, and nothing waits while queries are plenty.

    Args:
        sample: a sample in phase `FAILED`.
        open_samples: every sample that is not closed.
        left: queries that are neither asked nor planned.
        limit: fix attempts per sample.
        order: which order.
    """
    earlier = sum(
        max(0, min(limit, _attempts_before(sample, other, limit, order)) - other.attempts)
        for other in open_samples
        if other is not sample
    )
    return earlier < left


def _attempts_before(sample: Sample, other: Sample, limit: int, order: FixOrder) -> int:
    """How many attempts of `other` come before the next attempt of `sample`."""
    first = other.place < sample.place
    if order is FixOrder.SAMPLE:
        return limit if first else 0
    return sample.attempts + first
