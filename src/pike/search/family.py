"""The tree of a run: who was made from whom, what each was meant to be, and how often a line of work was repaired.

Knows every node with a verdict, valid or refused, whatever the library forgets. Does not know which of them is tried
next.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from pike.core.step import ORIGINAL
from pike.search.parts import Draw, Kin, Move, Node


class Family:
    """All nodes by descent; the newest child is the last."""

    def __init__(self) -> None:
        self._kin: dict[str, Kin] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._grandchildren: dict[str, list[str]] = defaultdict(list)
        self._valid: list[Node] = []
        self._repairs: Counter[tuple[int, int]] = Counter()

    def add(self, kin: Kin) -> None:
        """Take a node; what it hangs from is in already."""
        self._kin[kin.node.id] = kin
        self._children[kin.under].append(kin.node.id)
        if kin.under != ORIGINAL:
            self._grandchildren[self._kin[kin.under].under].append(kin.node.id)
        if kin.node.valid:
            insort(self._valid, kin.node)

    def __getitem__(self, id: str) -> Kin:
        return self._kin[id]

    def begin_repair(self, kin: Kin) -> Move:
        """The next repair of a refused node, from now on counted."""
        self._repairs[kin.node.round, kin.node.sample] += 1
        return Move(Draw(kin.node.parent, island=kin.node.island), kin, self.repairs(kin))

    def repairs(self, kin: Kin) -> int:
        """Repairs begun of the line that `kin` belongs to: a sample's first candidate and all that goes back to it."""
        return self._repairs[kin.node.round, kin.node.sample]

    def leaders(self, count: int) -> Sequence[Node]:
        """At most `count` valid nodes of the whole run, fastest first."""
        return self._valid[:count]

    def children(self, id: str) -> Sequence[str]:
        """Ids of the nodes made from this one, the oldest first."""
        return self._children.get(id, ())

    def newest_children(self, id: str, count: int, but: str = "") -> tuple[str, ...]:
        """At most `count` children that hold code, the newest first, without `but`."""
        return self._shown(self.children(id), count, but)

    def newest_nephews(self, id: str, count: int) -> tuple[str, ...]:
        """At most `count` children of siblings of `id` that hold code, the newest first."""
        if id == ORIGINAL:
            return ()
        own = self._kin[id].under
        cousins = (name for name in reversed(self._grandchildren.get(own, ())) if self._kin[name].under != id)
        return tuple(islice((name for name in cousins if self._kin[name].has_code), count))

    def _shown(self, ids: Sequence[str], count: int, but: str) -> tuple[str, ...]:
        found = (name for name in reversed(ids) if name != but and self._kin[name].has_code)
        return tuple(islice(found, count))


def distinct(groups: Iterable[Iterable[str]], without: Iterable[str]) -> tuple[str, ...]:
    """All ids of the groups, each once, in order."""
    left_out = set(without)
    return tuple(name for name in dict.fromkeys(chain.from_iterable(groups)) if name not in left_out)
