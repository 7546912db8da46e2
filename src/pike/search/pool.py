"""The library without a database: a pool of valid solutions.

Knows runtimes, sources and when a solution is forgotten. Does not know queries or repairs. Results
depend on (milliseconds, round, sample, attempt), never on ids or the order of arrival.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.options.library import Duplicates, Memory, Pool
from pike.search.options.selection import ByRatio
from pike.search.parts import Node, SeedDraw


class SolutionPool:
    """Valid solutions by speed, as far as the options let them stay."""

    def __init__(self, options: Pool, ratio: ByRatio, shown: int, run_seed: int) -> None:
        self._options = options
        self._ratio = ratio
        self._shown = shown
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
            same = self._by_source.get(source)
            if same is not None and same < node:
                return
            if same is not None:
                self._remove(same)
            self._by_source[source] = node
        insort(self._nodes, node)
        self._held.add(node.id)
        if 0 < self._options.size < len(self._nodes):
            self._remove(self._nodes[-1])

    def begin_round(self) -> None:
        """Forget all solutions if memory is one round."""
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

    def draw(self) -> SeedDraw:
        """A seed by exploration, by exploitation, or by chance from all and the original.

        Its inspirations are the fastest others.
        """
        ratio, nodes = self._ratio, self._nodes
        rng = stream(self._run_seed, f"draw {self._draws}")
        self._draws += 1
        if not nodes:
            return SeedDraw()
        kind = rng.random()
        if kind < ratio.exploitation:
            seed = rng.choice(nodes[: ratio.elites]).id
        elif kind < ratio.exploitation + ratio.exploration:
            seed = rng.choice(nodes).id
        else:
            place = rng.randrange(len(nodes) + 1)
            seed = nodes[place].id if place < len(nodes) else ORIGINAL
        others = (node.id for node in nodes[: self._shown + 1] if node.id != seed)
        return SeedDraw(seed, tuple(others)[: self._shown])

    def _remove(self, node: Node) -> None:
        del self._nodes[bisect_left(self._nodes, node)]
        self._held.discard(node.id)
        if self._options.duplicates is Duplicates.ONCE:
            self._by_source.pop(node.source.strip(), None)
