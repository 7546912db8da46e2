"""Who gets how many of a round's queries: shares of seeds, ideas of samples, scarce fixes.

Knows arithmetic on counts and the state of one sample. Does not know candidates, verdicts or steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from pike.core.step import ORIGINAL
from pike.search.options import FixOrder


class Phase(Enum):
    """Where a sample stands."""

    PLANNED = auto()
    """Its first query is paid for in the plan and not asked yet."""
    RUNNING = auto()
    """A step of it is in flight."""
    FAILED = auto()
    """Its last candidate was refused and it has attempts left; it wants a fix."""
    CLOSED = auto()
    """Nothing more is asked for it."""


@dataclass(slots=True)
class Sample:
    """One of a round's tries: a first candidate and the fixes it needed.

    Attributes:
        round: the round it belongs to.
        index: its place in the round, from 0.
        seed: id of the candidate it improves.
        idea: the brainstormed idea it starts from.
        phase: where it stands.
        attempts: fixes asked so far.
        failing: id of the candidate to repair, empty before the first refusal.
        failing_has_code: whether that candidate holds code.
    """

    round: int
    index: int
    seed: str
    idea: str | None = None
    phase: Phase = Phase.PLANNED
    attempts: int = 0
    failing: str = ""
    failing_has_code: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Position in the order of samples."""
        return self.round, self.index


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


def plan_ideas(ideas: Sequence[str], size: int) -> tuple[str | None, ...]:
    """The idea of each of `size` samples: in turn, so that the first ones come more often; blanks do not count."""
    usable = [idea.strip() for idea in ideas if idea.strip()][:size]
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
