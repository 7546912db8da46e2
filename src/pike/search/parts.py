"""The parts that a search is put together from, as protocols, and the words between them.

Knows what a library, a selection and the state machine (`composite`) say to each other. Does not know any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pike.core.step import ORIGINAL

OUTSIDE = -1
"""The round of solutions that came from outside."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A candidate whose verdict is in; nodes sort by speed, then by place, never by order of arrival.

    Attributes:
        ms: measured milliseconds of one call, infinite for a refused one.
        round: the round it was found in, -1 for one from outside.
        sample: its sample in the round.
        attempt: the repair that made it, 0 for none.
        id: the candidate's id.
        parent: id of the seed it was made from.
        source: its file.
        island: the island it belongs to, 0 where a library has one.
    """

    ms: float
    round: int
    sample: int
    attempt: int
    id: str = field(compare=False)
    parent: str = field(compare=False, default=ORIGINAL)
    source: str = field(compare=False, default="")
    island: int = field(compare=False, default=0)

    @property
    def valid(self) -> bool:
        """Whether it can be a seed."""
        return math.isfinite(self.ms)

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it was found; no two candidates of a run share it."""
        return self.round, self.sample, self.attempt

    @property
    def branch(self) -> str:
        """What `distinct` counts: the parent, or itself for a child of the original model."""
        return self.id if self.parent == ORIGINAL else self.parent


@dataclass(frozen=True, slots=True)
class Kin:
    """A node in the tree of a run.

    Attributes:
        node: the candidate and its time.
        under: id of the node it hangs from: its seed, or the refused candidate that a deferred repair took up.
        plan: the plan it was written from, empty where there was none.
        has_code: whether it holds code that can be shown and repaired.
    """

    node: Node
    under: str = ORIGINAL
    plan: str = ""
    has_code: bool = True


@dataclass(frozen=True, slots=True)
class Draw:
    """What a library gives for one new sample.

    Attributes:
        seed: id of the candidate to improve.
        inspirations: ids of further candidates to show, in the order in which they are shown.
        island: where a child of it belongs.
    """

    seed: str = ORIGINAL
    inspirations: tuple[str, ...] = ()
    island: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """What a selection wants to be done next.

    Attributes:
        draw: the seed of a new candidate, or of the candidate to repair.
        failing: for a deferred repair, the refused node to repair.
        attempt: for a deferred repair, which one of its line, from 1.
    """

    draw: Draw = Draw()
    failing: Kin | None = None
    attempt: int = 0

    @property
    def under(self) -> str:
        """Id of the node that what comes of it hangs from."""
        return self.draw.seed if self.failing is None else self.failing.node.id


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a search stands when moves are chosen.

    Attributes:
        round: the round that begins; always 0 where there are none.
        moves: moves begun so far.
        samples: those of them that were new samples, not repairs; counted anew in each round.
    """

    round: int = 0
    moves: int = 0
    samples: int = 0


class Library(Protocol):
    """What a search remembers and which of it can be a seed; the original model is always known."""

    def add(self, node: Node) -> None:
        """Take a solution; refused ones are given too, and one of the id `ORIGINAL` tells the original's time."""
        ...

    def turn(self) -> None:
        """A round has begun."""
        ...

    def holds(self, id: str) -> bool:
        """Whether it remembers this candidate; one that it let go never comes back."""
        ...

    def fastest(self, count: int) -> Sequence[Node]:
        """At most `count` remembered valid solutions, fastest first."""
        ...

    def draw(self) -> Draw:
        """One seed by the library's own ratios of exploration, exploitation and chance, with its inspirations."""
        ...


class Selection(Protocol):
    """What to do next, as long as nobody says more: which solution to improve, or which refused one to repair."""

    def choose(self, count: int, queries: int, turn: Turn) -> list[Move]:
        """At most `count` moves that `queries` pay for; none where that has to wait for verdicts."""
        ...

    def can_choose(self, queries: int) -> bool:
        """Whether `choose` would give a move if nothing were open."""
        ...

    def learn(self, kin: Kin) -> None:
        """A node has joined the tree."""
        ...

    def closed(self, move: Move) -> None:
        """Nothing more will come of a move."""
        ...

    def turn(self) -> None:
        """A round has begun: what memory is too short for is forgotten."""
        ...
