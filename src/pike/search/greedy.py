"""Epsilon-greedy tree search (STARK, arXiv 2510.16996): the best node that may still be expanded, or any leaf.

Knows who may be expanded and who was how often. Does not know prompts, windows or what an expansion costs beyond which
moves the queries pay for. A valid node is expanded by a new candidate, a refused one by a repair.

- *Root throttling*: the original gets at most `root_children` children. These may be made at the same time; any other
  node is expanded once at a time.
- *Dead branches*: a node with more than `failing_children` children, all refused, is not expanded again.
- With probability `epsilon`, and where the best is tied or only refused nodes are left: any leaf, each as likely.
- Where nothing may be expanded and nothing is open: the least expanded node, throttled and dead ones included.

Decided here, because no source says it: a refused node without code is never expanded, one whose line has used up
`fix_attempts` no longer; what the library let go is not expanded; the original's score is its time in the first valid
verdict; solutions from outside are no children that throttle the original.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from heapq import heappop, heappush

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.chance import Urn
from pike.search.family import Family
from pike.search.options import Options
from pike.search.parts import OUTSIDE, Draw, Kin, Library, Move, Node, Turn

_TRIES = 32
"""Draws from the leaves before all of them are looked at."""


class EpsilonGreedy:
    """A `Selection` over the tree.

    Args:
        options: the dials.
        library: what it let go is not expanded.
        family: the tree.
        run_seed: what is drawn follows from it and from the number of moves before.
    """

    def __init__(self, options: Options, library: Library, family: Family, run_seed: int) -> None:
        self._options = options
        self._library = library
        self._family = family
        self._run_seed = run_seed
        self._root_ms = math.inf
        self._root_children = 0
        self._leaves = Urn()
        self._heaps: dict[bool, list[tuple[Node, str]]] = {True: [], False: []}
        self._queued: set[str] = set()
        self._least: list[tuple[int, int, str]] = []
        self._order: dict[str, int] = {}
        self._visits: Counter[str] = Counter()
        self._open: Counter[str] = Counter()
        self._refused_children: Counter[str] = Counter()
        self._enter(ORIGINAL)

    def choose(self, count: int, queries: int, turn: Turn) -> list[Move]:
        """The next expansions; fewer than `count`, or none, where the rest has to wait for verdicts."""
        moves: list[Move] = []
        while len(moves) < count:
            name = self._next(queries, turn.moves + len(moves))
            if name is None:
                break
            queries -= 1 if self._is_refused(name) else self._options.move_queries
            moves.append(self._begin(name))
        return moves

    def can_choose(self, queries: int) -> bool:
        """Whether a new candidate can be paid for, which the original always allows, or a repair is due."""
        return queries >= self._options.move_queries or (queries > 0 and self._top(valid=False) is not None)

    def learn(self, kin: Kin) -> None:
        """A node joins; what it was made from is no leaf any more."""
        if kin.node.id == ORIGINAL:
            self._root_ms = kin.node.ms
            return
        self._leaves.discard(kin.under)
        self._refused_children[kin.under] += not kin.node.valid
        self._root_children += kin.under == ORIGINAL and kin.node.round != OUTSIDE
        self._enter(kin.node.id)

    def closed(self, move: Move) -> None:
        """The node may be expanded again."""
        self._open[move.under] -= 1
        if not self._open[move.under]:
            del self._open[move.under]
        self._enqueue(move.under)

    def turn(self) -> None:
        """The tree does not forget."""

    def _next(self, queries: int, number: int) -> str | None:
        """The node to expand now, None where nothing can be. What it changes where it finds nothing decides nothing."""
        if queries < self._options.move_queries:
            return self._top(valid=False) if queries > 0 else None
        rng = stream(self._run_seed, f"expand {number}")
        best, tied = self._best()
        if best is None or tied or rng.random() < self._options.epsilon:
            best = self._leaf(rng) or best
        return best or self._top(valid=False) or self._least_visited()

    def _best(self) -> tuple[str | None, bool]:
        """The fastest valid node that may be expanded, and whether another one is as fast."""
        times = [(node.ms, node.id) for node in self._two_fastest()]
        if self._expandable(ORIGINAL):
            times = sorted([(self._root_ms, ORIGINAL), *times], key=lambda pair: pair[0])
        if not times:
            return None, False
        return times[0][1], len(times) > 1 and times[0][0] == times[1][0]

    def _two_fastest(self) -> list[Node]:
        heap = self._heaps[True]
        if self._top(valid=True) is None:
            return []
        first = heappop(heap)
        found = [first[0]] if self._top(valid=True) is None else [first[0], heap[0][0]]
        heappush(heap, first)
        return found

    def _top(self, *, valid: bool) -> str | None:
        """The first node of a heap that may be expanded; the others return when they may be again."""
        heap = self._heaps[valid]
        while heap and not self._expandable(heap[0][1]):
            self._queued.discard(heappop(heap)[1])
        return heap[0][1] if heap else None

    def _leaf(self, rng: random.Random) -> str | None:
        """Any leaf that may be expanded. Those that never may be again are dropped, but only if one is found."""
        for _ in range(_TRIES if self._leaves else 0):
            name = self._leaves.draw(rng)
            if self._expandable(name):
                return name
        good = [name for name in self._leaves if self._expandable(name)]
        if not good:
            return None
        for name in [name for name in self._leaves if not self._expandable(name)]:
            self._leaves.discard(name)
        return rng.choice(good)

    def _least_visited(self) -> str | None:
        if self._open:
            return None
        while True:
            visits, _, name = self._least[0]
            if visits == self._visits[name] and self._eligible(name):
                return name
            heappop(self._least)

    def _begin(self, name: str) -> Move:
        self._open[name] += 1
        self._visits[name] += 1
        self._remember_visits(name)
        if not self._expandable(name):
            self._leaves.discard(name)
        if self._is_refused(name):
            return self._family.begin_repair(self._family[name])
        return Move(Draw(name, island=0 if name == ORIGINAL else self._family[name].node.island))

    def _enter(self, name: str) -> None:
        self._order[name] = len(self._order)
        if self._eligible(name):
            self._remember_visits(name)
            self._enqueue(name)

    def _enqueue(self, name: str) -> None:
        """Put a node where it can be found, if it may be expanded."""
        if not self._expandable(name):
            return
        if not self._family.children(name):
            self._leaves.add(name)
        if name != ORIGINAL and name not in self._queued:
            self._queued.add(name)
            node = self._family[name].node
            heappush(self._heaps[node.valid], (node, name))

    def _remember_visits(self, name: str) -> None:
        heappush(self._least, (self._visits[name], self._order[name], name))

    def _expandable(self, name: str) -> bool:
        if name == ORIGINAL:
            return self._root_children + self._open[ORIGINAL] < self._options.root_children
        return name not in self._open and not self._is_dead(name) and self._eligible(name)

    def _is_dead(self, name: str) -> bool:
        children = len(self._family.children(name))
        return children > self._options.failing_children and self._refused_children[name] == children

    def _eligible(self, name: str) -> bool:
        """Whether it could be expanded if it were neither open, throttled nor dead."""
        if name == ORIGINAL:
            return True
        kin = self._family[name]
        if kin.node.valid:
            return self._library.holds(name)
        return kin.has_code and self._family.repairs(kin) < self._options.later

    def _is_refused(self, name: str) -> bool:
        return name != ORIGINAL and not self._family[name].node.valid
