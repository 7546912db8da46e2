"""Repairs as moves of their own, beside any selection that does not choose them by itself.

Knows which refused candidates wait, in which order, and what part of the moves they get. Does not know what else is
tried.
"""

from __future__ import annotations

from heapq import heappop, heappush

from pike.core.step import ORIGINAL
from pike.search.choices import FixOrder, LibraryKind, Memory
from pike.search.family import Family
from pike.search.options import Options
from pike.search.parts import Kin, Move, Selection, Turn


class Deferring:
    """A `Selection` that gives `repair_share` of the moves to repairs while any is waiting.

    A refused candidate waits while its line has attempts left. Where a repair of it was refused too and holds code,
    that one waits in its place. Where the pool's memory is one round, so is the time that a refused candidate waits.
    """

    def __init__(self, options: Options, others: Selection, family: Family) -> None:
        self._options = options
        self._others = others
        self._family = family
        self._waiting: list[tuple[tuple[int, ...], Kin]] = []

    def choose(self, count: int, queries: int, turn: Turn) -> list[Move]:
        """Repairs first, then what the other selection gives."""
        share = self._options.repair_share
        due = int((turn.moves + count) * share + 1e-9) - int(turn.moves * share + 1e-9)
        repairs = self._take(min(due, queries))
        others = self._others.choose(count - len(repairs), queries - len(repairs), turn)
        return [*repairs, *others] or self._take(min(count, queries))

    def can_choose(self, queries: int) -> bool:
        """Whether something waits or the other selection can go on."""
        return self._others.can_choose(queries) or (queries > 0 and bool(self._waiting))

    def learn(self, kin: Kin) -> None:
        """A refused candidate begins to wait; one without code leaves its place to the one it was to repair."""
        self._others.learn(kin)
        if kin.node.valid:
            return
        if kin.has_code:
            self._wait(kin)
        elif kin.under != ORIGINAL and not self._family[kin.under].node.valid:
            self._wait(self._family[kin.under])

    def closed(self, move: Move) -> None:
        """What came of a repair was learnt; one that brought nothing ends its line."""
        self._others.closed(move)

    def turn(self) -> None:
        """Forget who waits where memory is short."""
        self._others.turn()
        if self._options.library is LibraryKind.POOL and self._options.memory is Memory.ROUND:
            self._waiting.clear()

    def _wait(self, kin: Kin) -> None:
        attempts = self._family.repairs(kin)
        if attempts < self._options.later:
            place = (kin.node.round, kin.node.sample)
            order = place if self._options.fix_order is FixOrder.SAMPLE else (attempts, *place)
            heappush(self._waiting, ((*order, kin.node.attempt), kin))

    def _take(self, count: int) -> list[Move]:
        taken: list[Move] = []
        while self._waiting and len(taken) < count:
            taken.append(self._family.begin_repair(heappop(self._waiting)[1]))
        return taken
