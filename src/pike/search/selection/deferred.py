"""Repairs as moves of their own, beside a selection that chooses none.

Knows which refused candidates wait, in which order, and their share of the moves. Does not know
what else is tried.
"""

from heapq import heappop, heappush

from pike.core.step import ORIGINAL
from pike.search.options.repair import Deferred, FixOrder
from pike.search.parts import Move, Node, SearchState, Selection
from pike.search.tree import CandidateTree


class DeferredRepairs:
    """A `Selection` that gives a share of the moves to repairs while any candidate waits for one.

    A refused candidate waits until its attempts are used up. If its repair is refused too and holds
    code, the repaired one waits in its place.
    """

    def __init__(self, options: Deferred, others: Selection, tree: CandidateTree, *, forgets: bool) -> None:
        self._options = options
        self._others = others
        self._tree = tree
        self._forgets = forgets
        self._waiting: list[tuple[tuple[int, ...], Node]] = []

    def choose(self, count: int, queries: int, state: SearchState) -> list[Move]:
        """Repairs first, then the moves of the other selection."""
        share = self._options.share
        due = int((state.moves + count) * share + 1e-9) - int(state.moves * share + 1e-9)
        repairs = self._take(min(due, queries))
        others = self._others.choose(count - len(repairs), queries - len(repairs), state)
        return [*repairs, *others] or self._take(min(count, queries))

    def can_choose(self, queries: int) -> bool:
        """Whether a candidate waits or the other selection can choose."""
        return self._others.can_choose(queries) or (queries > 0 and bool(self._waiting))

    def learn(self, node: Node) -> None:
        """Let a refused candidate wait; without code, the one that it repaired waits again."""
        self._others.learn(node)
        if node.valid:
            return
        if node.has_code:
            self._wait(node)
        elif node.under != ORIGINAL and not self._tree[node.under].valid:
            self._wait(self._tree[node.under])

    def close(self, move: Move) -> None:
        """Tell the other selection; a repair that brought nothing is not tried again."""
        self._others.close(move)

    def begin_round(self) -> None:
        """Forget the candidates that wait, if rounds forget."""
        self._others.begin_round()
        if self._forgets:
            self._waiting.clear()

    def _wait(self, node: Node) -> None:
        attempts = self._tree.repairs(node)
        if attempts < self._options.attempts:
            place = (node.round, node.sample)
            order = place if self._options.order is FixOrder.SAMPLE else (attempts, *place)
            heappush(self._waiting, ((*order, node.attempt), node))

    def _take(self, count: int) -> list[Move]:
        taken: list[Move] = []
        while self._waiting and len(taken) < count:
            taken.append(self._tree.begin_repair(heappop(self._waiting)[1]))
        return taken
