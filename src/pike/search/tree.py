"""The tree of a run: every candidate with a verdict, under the one it was made from.

Knows valid and refused candidates, also those that the library forgot, and how often each was
repaired. Does not know which of them is tried next.
"""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from pike.core.step import ORIGINAL
from pike.search.parts import Move, Node, SeedDraw


class CandidateTree:
    """All nodes by descent; the newest child is the last."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._grandchildren: dict[str, list[str]] = defaultdict(list)
        self._valid: list[Node] = []
        self._repairs: Counter[tuple[int, int]] = Counter()

    def add(self, node: Node) -> None:
        """Take a node; the one it hangs from was added before."""
        self._nodes[node.id] = node
        self._children[node.under].append(node.id)
        if node.under != ORIGINAL:
            self._grandchildren[self._nodes[node.under].under].append(node.id)
        if node.valid:
            insort(self._valid, node)

    def __getitem__(self, id: str) -> Node:
        return self._nodes[id]

    def begin_repair(self, node: Node) -> Move:
        """The next repair of a refused node, which is counted from now on."""
        self._repairs[node.round, node.sample] += 1
        return Move(SeedDraw(node.parent, island=node.island), node, self.repairs(node))

    def repairs(self, node: Node) -> int:
        """Repairs begun so far that go back to the same first candidate as `node`."""
        return self._repairs[node.round, node.sample]

    def leaders(self, count: int) -> Sequence[Node]:
        """At most `count` valid nodes of the whole run, fastest first."""
        return self._valid[:count]

    def children(self, id: str) -> Sequence[str]:
        """Ids of the nodes made from this one, the oldest first."""
        return self._children.get(id, ())

    def newest_children(self, id: str, count: int, but: str = "") -> tuple[str, ...]:
        """At most `count` children that hold code, the newest first, without `but`."""
        return self._with_code((name for name in reversed(self.children(id)) if name != but), count)

    def newest_refused(self, id: str, count: int) -> tuple[str, ...]:
        """At most `count` refused children that hold code, the newest first."""
        refused = (name for name in reversed(self.children(id)) if not self._nodes[name].valid)
        return self._with_code(refused, count)

    def refused_above(self, node: Node | None) -> tuple[str, ...]:
        """The refused candidates that `node` goes back to, the newest first."""
        found = []
        while node is not None and node.under != ORIGINAL:
            node = self._nodes[node.under]
            if node.valid:
                break
            found.append(node.id)
        return tuple(found)

    def newest_nephews(self, id: str, count: int) -> tuple[str, ...]:
        """At most `count` children of siblings of `id` that hold code, the newest first."""
        if id == ORIGINAL:
            return ()
        cousins = reversed(self._grandchildren.get(self._nodes[id].under, ()))
        return self._with_code((name for name in cousins if self._nodes[name].under != id), count)

    def _with_code(self, ids: Iterable[str], count: int) -> tuple[str, ...]:
        return tuple(islice((name for name in ids if self._nodes[name].has_code), count))


def distinct(groups: Iterable[Iterable[str]], without: Iterable[str]) -> tuple[str, ...]:
    """All ids of the groups, each once, in order."""
    left_out = set(without)
    return tuple(name for name in dict.fromkeys(chain.from_iterable(groups)) if name not in left_out)
