"""Libraries without a database: the pool of valid solutions, and the tree in which everything stays.

Knows runtimes, sources and who is forgotten. Does not know queries, rounds in progress or repairs. What it gives
depends on (milliseconds, round, sample, attempt), never on ids or order of arrival, so that it does not matter
which of two concurrent evaluations ended first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.choices import Duplicates, Memory
from pike.search.options import Options
from pike.search.parts import Draw, Node


class Pool:
    """Valid solutions by speed, as far as `memory`, `archive_size` and `duplicates` let them stay.

    Args:
        options: the dials.
        run_seed: what is drawn follows from it and from the number of draws before.
    """

    def __init__(self, options: Options, run_seed: int) -> None:
        self._options = options
        self._run_seed = run_seed
        self._nodes: list[Node] = []
        self._held: set[str] = set()
        self._by_source: dict[str, Node] = {}
        self._draws = 0

    def add(self, node: Node) -> None:
        """Put a valid solution into the pool; refused ones and the original are left out."""
        if not node.valid or node.id == ORIGINAL:
            return
        if self._options.duplicates is Duplicates.ONCE:
            source = node.source.strip()
            twin = self._by_source.get(source)
            if twin is not None and twin < node:
                return
            if twin is not None:
                self._remove(twin)
            self._by_source[source] = node
        insort(self._nodes, node)
        self._held.add(node.id)
        if 0 < self._options.archive_size < len(self._nodes):
            self._remove(self._nodes[-1])

    def turn(self) -> None:
        """A round has begun: what was in the pool is forgotten where memory is short."""
        if self._options.memory is Memory.ROUND:
            self._nodes.clear()
            self._held.clear()
            self._by_source.clear()

    def holds(self, id: str) -> bool:
        """Whether it remembers this candidate."""
        return id in self._held

    def fastest(self, count: int) -> Sequence[Node]:
        """At most `count` solutions, fastest first."""
        return self._nodes[:count]

    def draw(self) -> Draw:
        """A seed from all (exploration), from the `top_k` fastest (exploitation), or from all and the original.

        Its inspirations are the fastest others.
        """
        options = self._options
        rng = stream(self._run_seed, f"draw {self._draws}")
        self._draws += 1
        if not self._nodes:
            return Draw()
        kind = rng.random()
        if kind < options.exploitation:
            seed = rng.choice(self._nodes[: options.top_k]).id
        elif kind < options.exploitation + options.exploration:
            seed = rng.choice(self._nodes).id
        else:
            place = rng.randrange(len(self._nodes) + 1)
            seed = self._nodes[place].id if place < len(self._nodes) else ORIGINAL
        others = (node.id for node in self._nodes[: options.shown + 1] if node.id != seed)
        return Draw(seed, tuple(others)[: options.shown])

    def _remove(self, node: Node) -> None:
        del self._nodes[bisect_left(self._nodes, node)]
        self._held.discard(node.id)
        if self._options.duplicates is Duplicates.ONCE:
            self._by_source.pop(node.source.strip(), None)


class Everything(Pool):
    """The library of a tree search: nothing is ever forgotten, refused nodes included."""

    def add(self, node: Node) -> None:
        """Take any node; only valid ones can be drawn or be among the fastest."""
        if node.id == ORIGINAL:
            return
        self._held.add(node.id)
        if node.valid:
            insort(self._nodes, node)

    def turn(self) -> None:
        """Nothing is forgotten."""
