"""A chain of revisions: each candidate revises the one before, valid or refused.

Knows the order of samples and the tree. Does not know speeds beyond those of admitted solutions.
"""

from collections.abc import Sequence

from pike.search.options.search import SearchOptions
from pike.search.options.selection import Latest
from pike.search.parts import OUTSIDE, Move, Node, SearchState, SeedDraw
from pike.search.selection.original import OriginalSelection
from pike.search.tree import CandidateTree


class LatestSelection(OriginalSelection):
    """The latest candidate in the order of samples.

    A refused one is repaired by a move of its own, where repairs are `chosen`, until its attempts
    are used up. After that the chain goes on from the latest valid one.
    """

    def __init__(self, options: SearchOptions, chosen: Latest, tree: CandidateTree) -> None:
        super().__init__(options.roles.queries)
        self._from_admitted = chosen.from_admitted
        self._limit = options.repairs_later
        self._tree = tree
        self._last: Node | None = None
        self._valid: Node | None = None

    def choose(self, count: int, queries: int, state: SearchState) -> list[Move]:
        """The revision that is due, `count` times."""
        node, repairs = self._last, self._repairs()
        if node is None or not repairs:
            return super().choose(count, queries, state)
        return [self._tree.begin_repair(node) for _ in range(min(count, queries, repairs))]

    def can_choose(self, queries: int) -> bool:
        """Whether the next move can be paid for; a candidate may cost more than a repair."""
        return queries >= (1 if self._repairs() else self._cost)

    def learn(self, node: Node) -> None:
        """Lengthen the chain by a later candidate; the fastest admitted solution begins it."""
        if node.round == OUTSIDE:
            if self._from_admitted and (self._valid is None or node < self._valid):
                self._valid = self._last = node
            return
        if node.has_code and (self._last is None or node.place > self._last.place):
            self._last = node
            self._valid = node if node.valid else self._valid

    def seeds(self, size: int, state: SearchState) -> Sequence[SeedDraw]:
        """The latest valid one, the original before there is any."""
        node = self._valid
        return [SeedDraw() if node is None else SeedDraw(node.id, island=node.island)] * size

    def _repairs(self) -> int:
        """Repairs that the last candidate may still get."""
        node = self._last
        return 0 if node is None or node.valid else max(0, self._limit - self._tree.repairs(node))
