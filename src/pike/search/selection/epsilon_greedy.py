"""Epsilon-greedy tree search (STARK, arXiv 2510.16996): the best open node, or any leaf.

Knows which nodes may be expanded and how often each was. Does not know prompts, windows or the cost
of an expansion beyond the moves that the queries pay for. A valid node is expanded by a new
candidate, a refused one by a repair.

- *Root throttling*: the original gets at most `root_children` children. These may be made at the
  same time; any other node is expanded once at a time.
- *Dead branches*: a node with more than `failing_children` children, all refused, is not expanded
  again.
- Any leaf is drawn with probability `epsilon`, if the best is tied, or if only refused nodes are
  left.
- If nothing may be expanded and nothing is open, the least expanded node is, throttled and dead
  ones included.

Decided here, because no source says it: a refused node without code is never expanded, nor is one
whose attempts are used up; a node that the library forgot is not expanded; the original's score is
its time in the first valid verdict; admitted solutions do not count as children of the original.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.options.search import SearchOptions
from pike.search.options.selection import EpsilonGreedy
from pike.search.parts import OUTSIDE, Library, Move, Node, SearchState, SeedDraw
from pike.search.tree import CandidateTree

_TRIES = 32
"""Draws from the leaves before all of them are looked at."""


class EpsilonGreedySelection:
    """A `Selection` over the tree."""

    def __init__(
        self, options: SearchOptions, chosen: EpsilonGreedy, library: Library, tree: CandidateTree, run_seed: int
    ) -> None:
        self._options = chosen
        self._cost = options.roles.queries
        self._repairs = options.repairs_later
        self._library = library
        self._tree = tree
        self._run_seed = run_seed
        self._root_ms = math.inf
        self._root_children = 0
        self._leaves = DrawableSet()
        self._heaps: dict[bool, list[tuple[Node, str]]] = {True: [], False: []}
        self._queued: set[str] = set()
        self._least: list[tuple[int, int, str]] = []
        self._order: dict[str, int] = {}
        self._visits: Counter[str] = Counter()
        self._open: Counter[str] = Counter()
        self._refused_children: Counter[str] = Counter()
        self._enter(ORIGINAL)

    def choose(self, count: int, queries: int, state: SearchState) -> list[Move]:
        """The next expansions, fewer than `count` if the rest has to wait for verdicts."""
        moves: list[Move] = []
        while len(moves) < count:
            name = self._next(queries, state.moves + len(moves))
            if name is None:
                break
            queries -= 1 if self._is_refused(name) else self._cost
            moves.append(self._begin(name))
        return moves

    def can_choose(self, queries: int) -> bool:
        """Whether a new candidate can be paid for, or a repair is due."""
        return queries >= self._cost or (queries > 0 and self._top(valid=False) is not None)

    def learn(self, node: Node) -> None:
        """Take a node; the one it was made from is no leaf any more."""
        if node.id == ORIGINAL:
            self._root_ms = node.ms
            return
        self._leaves.discard(node.under)
        self._refused_children[node.under] += not node.valid
        self._root_children += node.under == ORIGINAL and node.round != OUTSIDE
        self._enter(node.id)

    def close(self, move: Move) -> None:
        """Let the node be expanded again."""
        self._open[move.under] -= 1
        if not self._open[move.under]:
            del self._open[move.under]
        self._enqueue(move.under)

    def begin_round(self) -> None:
        """Nothing to forget: the tree keeps every node."""

    def _next(self, queries: int, number: int) -> str | None:
        """The node to expand now, or None; a search in vain changes no later decision."""
        if queries < self._cost:
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
        """The first node of a heap that may be expanded; nodes that may not leave the heap."""
        heap = self._heaps[valid]
        while heap and not self._expandable(heap[0][1]):
            self._queued.discard(heappop(heap)[1])
        return heap[0][1] if heap else None

    def _leaf(self, rng: random.Random) -> str | None:
        """Any leaf that may be expanded; the search drops leaves that never may be again."""
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
            return self._tree.begin_repair(self._tree[name])
        return Move(SeedDraw(name, island=0 if name == ORIGINAL else self._tree[name].island))

    def _enter(self, name: str) -> None:
        self._order[name] = len(self._order)
        if self._eligible(name):
            self._remember_visits(name)
            self._enqueue(name)

    def _enqueue(self, name: str) -> None:
        """Put a node where it can be found, if it may be expanded."""
        if not self._expandable(name):
            return
        if not self._tree.children(name):
            self._leaves.add(name)
        if name != ORIGINAL and name not in self._queued:
            self._queued.add(name)
            node = self._tree[name]
            heappush(self._heaps[node.valid], (node, name))

    def _remember_visits(self, name: str) -> None:
        heappush(self._least, (self._visits[name], self._order[name], name))

    def _expandable(self, name: str) -> bool:
        if name == ORIGINAL:
            return self._root_children + self._open[ORIGINAL] < self._options.root_children
        return name not in self._open and not self._is_dead(name) and self._eligible(name)

    def _is_dead(self, name: str) -> bool:
        children = len(self._tree.children(name))
        return children > self._options.failing_children and self._refused_children[name] == children

    def _eligible(self, name: str) -> bool:
        """Whether it could be expanded if it were neither open, throttled nor dead."""
        if name == ORIGINAL:
            return True
        node = self._tree[name]
        if node.valid:
            return self._library.holds(name)
        return node.has_code and self._tree.repairs(node) < self._repairs

    def _is_refused(self, name: str) -> bool:
        return name != ORIGINAL and not self._tree[name].valid


class DrawableSet:
    """Distinct names whose order depends only on what was added and discarded, in order."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, name: str) -> None:
        """Add a name unless it is a member."""
        if name not in self._places:
            self._places[name] = len(self._names)
            self._names.append(name)

    def discard(self, name: str) -> None:
        """Remove a name if it is a member; the last one takes its place."""
        place = self._places.pop(name, None)
        if place is None:
            return
        moved = self._names.pop()
        if place < len(self._names):
            self._names[place] = moved
            self._places[moved] = place

    def draw(self, rng: random.Random) -> str:
        """Any name, each as likely as the others."""
        return self._names[rng.randrange(len(self._names))]
