"""The valid solutions of a run and which of them become seeds.

Knows runtimes, parents and the options of selection. Does not know queries, rounds in progress or failing
candidates. Selection looks at (milliseconds, round, sample, attempt), never at ids or order of arrival, so
that it does not depend on which of two concurrent evaluations ended first.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pike.core.step import ORIGINAL, Candidate
from pike.search.options import BranchingOptions, Diversity, Duplicates, Memory

ADMITTED_ROUND = -1
"""The round of solutions that came from outside."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A valid solution; members sort by speed, then by place.

    Attributes:
        ms: measured milliseconds of one call.
        round: the round it was found in, `ADMITTED_ROUND` for one from outside.
        sample: its sample in the round.
        attempt: the fix attempt that made it valid, 0 for none.
        id: the candidate's id.
        parent: id of the seed it was made from.
        source: its file.
    """

    ms: float
    round: int
    sample: int
    attempt: int
    id: str = field(compare=False)
    parent: str = field(compare=False, default=ORIGINAL)
    source: str = field(compare=False, default="")

    @property
    def branch(self) -> str:
        """What `distinct` counts: the parent, or itself for a child of the original model."""
        return self.id if self.parent == ORIGINAL else self.parent


def admitted(candidate: Candidate, ms: float, place: int) -> Member:
    """The member for a solution from outside, the `place`-th of them."""
    return Member(ms, ADMITTED_ROUND, place, 0, candidate.id, ORIGINAL, candidate.source)


class Library:
    """The pool that seeds are chosen from."""

    def __init__(self, options: BranchingOptions) -> None:
        self._options = options
        self._pool: list[Member] = []

    def add(self, member: Member) -> None:
        """Put a valid solution into the pool."""
        insort(self._pool, member)

    def seeds(self, count: int) -> tuple[str, ...]:
        """Ids of at most `count` solutions of the pool, fastest first."""
        chosen: list[str] = []
        branches: Counter[str] = Counter()
        for member in self._candidates():
            if len(chosen) == count:
                break
            if self._options.diversity is Diversity.DISTINCT and branches[member.branch] >= self._options.per_branch:
                continue
            branches[member.branch] += 1
            chosen.append(member.id)
        return tuple(chosen)

    def turn(self) -> None:
        """A round has begun: what was in the pool is forgotten where memory is short."""
        if self._options.memory is Memory.ROUND:
            self._pool.clear()

    def _candidates(self) -> Iterable[Member]:
        return self._pool if self._options.duplicates is Duplicates.KEEP else _without_repeats(self._pool)


def _without_repeats(members: Iterable[Member]) -> Iterator[Member]:
    seen: set[str] = set()
    for member in members:
        source = member.source.strip()
        if source not in seen:
            seen.add(source)
            yield member
