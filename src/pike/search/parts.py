"""The parts that a search is put together from, as protocols, and the records between them.

Knows what a library, a selection and the state machine (`composite`) tell each other. Does not know
any of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pike.core.step import ORIGINAL

OUTSIDE = -1
"""The round of solutions that were admitted from outside."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A candidate with its verdict.

    Nodes sort by speed, then by round, sample and attempt, so their order does not depend on the
    order in which verdicts arrive.

    Attributes:
        ms: measured milliseconds of one call, infinite for a refused candidate.
        round: the round it was found in, `OUTSIDE` for an admitted one.
        sample: its sample in the round.
        attempt: the repair that made it, 0 for none.
        id: the candidate's id.
        parent: id of the seed it was made from.
        source: its file.
        island: the island it belongs to, 0 where a library has one.
        under: id of its parent in the tree: its seed, or the refused candidate that it repairs.
        plan: the plan it was written from, empty where there was none.
    """

    ms: float
    round: int
    sample: int
    attempt: int
    id: str = field(compare=False)
    parent: str = field(compare=False, default=ORIGINAL)
    source: str = field(compare=False, default="")
    island: int = field(compare=False, default=0)
    under: str = field(compare=False, default=ORIGINAL)
    plan: str = field(compare=False, default="")

    @property
    def valid(self) -> bool:
        """Whether it can be a seed."""
        return math.isfinite(self.ms)

    @property
    def has_code(self) -> bool:
        """Whether it holds code that can be shown and repaired."""
        return bool(self.source.strip())

    @property
    def place(self) -> tuple[int, int, int]:
        """Round, sample and attempt; no two candidates of a run share them."""
        return self.round, self.sample, self.attempt

    @property
    def branch(self) -> str:
        """The branch that `distinct` counts: its parent, or itself for a child of the original."""
        return self.id if self.parent == ORIGINAL else self.parent


@dataclass(frozen=True, slots=True)
class SeedDraw:
    """A seed for one new sample.

    Attributes:
        seed: id of the candidate to improve.
        inspirations: ids of further candidates to show, in the order in which they are shown.
        island: the island that a child of it joins.
    """

    seed: str = ORIGINAL
    inspirations: tuple[str, ...] = ()
    island: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """The next thing that a selection wants to try.

    Attributes:
        draw: the seed of a new candidate, or of the candidate to repair.
        failing: for a deferred repair, the refused node to repair.
        attempt: for a deferred repair, its number among those that go back to one first candidate,
            from 1.
    """

    draw: SeedDraw = SeedDraw()
    failing: Node | None = None
    attempt: int = 0

    @property
    def under(self) -> str:
        """Id of the node that a candidate of this move hangs from in the tree."""
        return self.draw.seed if self.failing is None else self.failing.id


@dataclass(frozen=True, slots=True)
class SearchState:
    """How far a search is when moves are chosen.

    Attributes:
        round: the round that begins; always 0 where there are none.
        moves: moves begun so far.
        samples: those of them that were new samples, not repairs; counted anew in each round.
    """

    round: int = 0
    moves: int = 0
    samples: int = 0


class Library(Protocol):
    """Remembers solutions and gives seeds; it always holds the original model."""

    def add(self, node: Node) -> None:
        """Take a candidate, valid or refused; the id `ORIGINAL` tells the original's time."""

    def begin_round(self) -> None:
        """Note that a round has begun."""

    def holds(self, id: str) -> bool:
        """Whether it remembers this candidate; a forgotten one never comes back."""

    def fastest(self, count: int) -> Sequence[Node]:
        """At most `count` remembered valid solutions, fastest first."""

    def draw(self) -> SeedDraw:
        """One seed by the library's own ratios of exploration, exploitation and chance."""


class Selection(Protocol):
    """Chooses the next moves: which solution to improve, or which refused candidate to repair."""

    def choose(self, count: int, queries: int, state: SearchState) -> list[Move]:
        """At most `count` moves that `queries` pay for; none if it must wait for verdicts."""

    def can_choose(self, queries: int) -> bool:
        """Whether `choose` would give a move if nothing were open."""

    def learn(self, node: Node) -> None:
        """Take a node that joined the tree."""

    def close(self, move: Move) -> None:
        """Note that a move is over; its node was learnt before, if there is one."""

    def begin_round(self) -> None:
        """Note that a round has begun."""
