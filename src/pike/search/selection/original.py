"""Selections that choose no seed themselves: always the original model, or what the library draws.

Knows how many moves the queries pay for. Does not know speeds, the tree or repairs.
"""

from collections.abc import Sequence

from pike.search.parts import Library, Move, Node, SearchState, SeedDraw


class OriginalSelection:
    """Always the original model; the base of selections that choose by `seeds` alone."""

    def __init__(self, cost: int) -> None:
        self._cost = cost

    def choose(self, count: int, queries: int, state: SearchState) -> list[Move]:
        """`count` moves from the seeds of `seeds`, or as many as `queries` pay for."""
        size = min(count, queries // self._cost)
        return [Move(draw) for draw in self.seeds(size, state)] if size > 0 else []

    def can_choose(self, queries: int) -> bool:
        """Whether a new candidate can be paid for."""
        return queries >= self._cost

    def learn(self, node: Node) -> None:
        """Nothing to remember: the library does."""

    def close(self, move: Move) -> None:
        """Nothing to release."""

    def begin_round(self) -> None:
        """Nothing to forget."""

    def seeds(self, size: int, state: SearchState) -> Sequence[SeedDraw]:
        """The seeds of the next `size` samples."""
        return [SeedDraw()] * size


class DrawnSelection(OriginalSelection):
    """What the library draws (PIKE-O)."""

    def __init__(self, cost: int, library: Library) -> None:
        super().__init__(cost)
        self._library = library

    def seeds(self, size: int, state: SearchState) -> Sequence[SeedDraw]:
        """One draw for each sample."""
        return [self._library.draw() for _ in range(size)]
