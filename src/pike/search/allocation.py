"""How the queries of a round are shared: seeds, ideas and scarce repairs.

Knows counts and samples. Does not know verdicts or steps.
"""

from collections.abc import Iterable, Sequence

from pike.search.options.repair import FixOrder
from pike.search.sample import Sample


def even_split(total: int, parts: int) -> tuple[int, ...]:
    """`total` in shares that differ by at most one, larger first: (10, 4) gives 3, 3, 2, 2."""
    base, larger = divmod(total, parts)
    return tuple(base + (part < larger) for part in range(parts))


def plan_seeds(slots: Sequence[str], size: int) -> tuple[str, ...]:
    """The seed of each of `size` samples, shared evenly over the slots."""
    shares = even_split(size, len(slots))
    return tuple(slot for slot, share in zip(slots, shares, strict=True) for _ in range(share))


def usable_ideas(ideas: Sequence[str], most: int) -> list[str]:
    """At most `most` ideas; blank ones do not count."""
    return [idea.strip() for idea in ideas if idea.strip()][:most]


def plan_ideas(ideas: Sequence[str], size: int) -> tuple[str | None, ...]:
    """The idea of each of `size` samples; the ideas repeat from the first one on."""
    usable = usable_ideas(ideas, size)
    return tuple(usable[index % len(usable)] if usable else None for index in range(size))


def may_fix(sample: Sample, open_samples: Iterable[Sample], left: int, limit: int, order: FixOrder) -> bool:
    """Whether the next repair of `sample` can start now.

    The possible repairs of a round have one order, and scarce queries go to the first of them that
    turn out to be needed. A repair starts as soon as `left` covers it and every earlier one that
    may still be needed; until then it waits for verdicts. So the repairs asked do not depend on the
    order in which verdicts arrive, and nothing waits while queries are plenty.

    Args:
        left: queries that are neither asked nor planned.
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
