"""Selections that look at the library only: the fastest in equal shares, weighted, drawn, the original, the last.

Knows slots, shares and weights. Does not know the tree (`greedy`), deferred repairs (`deferring`) or the budget beyond
how many moves it pays for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.allocation import plan_seeds, with_original
from pike.search.choices import Diversity, Pacing, Seeding
from pike.search.family import Family
from pike.search.options import Options
from pike.search.parts import OUTSIDE, Draw, Kin, Library, Move, Node, Turn


class Original:
    """Always the original model."""

    def __init__(self, options: Options) -> None:
        self._cost = options.move_queries

    def choose(self, count: int, queries: int, turn: Turn) -> list[Move]:
        """`count` moves from the seeds of `seeds`, as far as `queries` go."""
        size = min(count, queries // self._cost)
        return [Move(draw) for draw in self.seeds(size, turn)] if size > 0 else []

    def can_choose(self, queries: int) -> bool:
        """Whether a new candidate can be paid for."""
        return queries >= self._cost

    def learn(self, kin: Kin) -> None:
        """Nothing to remember: the library does."""

    def closed(self, move: Move) -> None:
        """Nothing to release."""

    def turn(self) -> None:
        """Nothing to forget."""

    def seeds(self, size: int, turn: Turn) -> Sequence[Draw]:
        """The seeds of the next `size` samples."""
        return [Draw()] * size


class TopK(Original):
    """The `top_k` fastest in equal shares (PIKE-B); the first samples start as `seeding` says."""

    def __init__(self, options: Options, library: Library) -> None:
        super().__init__(options)
        self._options = options
        self._library = library
        self._islands: dict[str, int] = {}
        self._admitted = False

    def learn(self, kin: Kin) -> None:
        """Remember where it belongs, and whether anything came from outside."""
        self._islands[kin.node.id] = kin.node.island
        self._admitted = self._admitted or kin.node.round == OUTSIDE

    def seeds(self, size: int, turn: Turn) -> Sequence[Draw]:
        """Shares of the slots in a round; the slots in turn where there are no rounds."""
        slots = self._first_slots() if self._first(turn) else self._slots()
        rounds = self._options.pacing is Pacing.ROUNDS
        chosen = plan_seeds(slots, size) if rounds else [slots[turn.samples % len(slots)]]
        return [self.draw_of(seed) for seed in chosen]

    def draw_of(self, seed: str) -> Draw:
        """A child of this seed belongs where the seed does."""
        return Draw(seed, island=self._islands.get(seed, 0))

    def _first(self, turn: Turn) -> bool:
        if self._options.pacing is Pacing.ROUNDS:
            return turn.round == 0
        return turn.samples < self._options.first_attempts

    def _first_slots(self) -> tuple[str, ...]:
        top_k, seeding = self._options.top_k, self._options.seeding
        if seeding is Seeding.ORIGINAL or not self._admitted:
            return (ORIGINAL,)
        if seeding is Seeding.BOTH:
            return (*self._fastest(max(1, top_k - 1)), ORIGINAL)
        return with_original(self._fastest(top_k), top_k)

    def _slots(self) -> tuple[str, ...]:
        return with_original(self._fastest(self._options.top_k), self._options.top_k)

    def _fastest(self, count: int) -> tuple[str, ...]:
        if self._options.diversity is Diversity.GLOBAL_SORT:
            return tuple(node.id for node in self._library.fastest(count))
        looked_at = 4 * count
        while True:
            nodes = self._library.fastest(looked_at)
            chosen = _distinct(nodes, count, self._options.per_branch)
            if len(chosen) == count or len(nodes) < looked_at:
                return chosen
            looked_at *= 4


class Weighted(TopK):
    """One of the `top_k` fastest, in proportion to its speed (METR)."""

    def __init__(self, options: Options, library: Library, run_seed: int) -> None:
        super().__init__(options, library)
        self._run_seed = run_seed

    def seeds(self, size: int, turn: Turn) -> Sequence[Draw]:
        """First samples as `TopK`, then each drawn for itself; the original while nothing is valid."""
        if self._first(turn):
            return super().seeds(size, turn)
        nodes = self._library.fastest(self._options.top_k)
        if not nodes:
            return [Draw()] * size
        weights = [1.0 / max(node.ms, 1e-9) for node in nodes]
        rngs = (stream(self._run_seed, f"weighted {turn.moves + index}") for index in range(size))
        return [self.draw_of(rng.choices(nodes, weights)[0].id) for rng in rngs]


class Drawn(Original):
    """What the library draws (PIKE-O)."""

    def __init__(self, options: Options, library: Library) -> None:
        super().__init__(options)
        self._library = library

    def seeds(self, size: int, turn: Turn) -> Sequence[Draw]:
        """One draw for each sample."""
        return [self._library.draw() for _ in range(size)]


class Last(Original):
    """The latest candidate: a chain in which each revises the one before, failing or not.

    With several samples at once, the latest is the one furthest in the order of samples. A refused one is repaired by
    a move of its own where repairs are deferred, as long as its line has attempts left; after that the chain goes
    on from the latest valid one. The fastest solution from outside begins the chain.
    """

    def __init__(self, options: Options, family: Family) -> None:
        super().__init__(options)
        self._seeding = options.seeding
        self._limit = options.later
        self._family = family
        self._last: Kin | None = None
        self._valid: Kin | None = None

    def choose(self, count: int, queries: int, turn: Turn) -> list[Move]:
        """The revision that is due, `count` times."""
        kin, repairs = self._last, self._repairs()
        if kin is None or not repairs:
            return super().choose(count, queries, turn)
        return [self._family.begin_repair(kin) for _ in range(min(count, queries, repairs))]

    def can_choose(self, queries: int) -> bool:
        """A repair costs one query, a new candidate may cost more."""
        return queries >= (1 if self._repairs() else self._cost)

    def learn(self, kin: Kin) -> None:
        """The chain grows by what is later; of several solutions from outside the fastest begins it."""
        if kin.node.round == OUTSIDE:
            if self._seeding is not Seeding.ORIGINAL and (self._valid is None or kin.node < self._valid.node):
                self._valid = self._last = kin
            return
        if kin.has_code and (self._last is None or kin.node.place > self._last.node.place):
            self._last = kin
            self._valid = kin if kin.node.valid else self._valid

    def seeds(self, size: int, turn: Turn) -> Sequence[Draw]:
        """The latest valid one, the original before there is any."""
        node = None if self._valid is None else self._valid.node
        return [Draw() if node is None else Draw(node.id, island=node.island)] * size

    def _repairs(self) -> int:
        """Repairs that the last candidate may still get."""
        kin = self._last
        return 0 if kin is None or kin.node.valid else max(0, self._limit - self._family.repairs(kin))


def _distinct(nodes: Sequence[Node], count: int, per_branch: int) -> tuple[str, ...]:
    chosen: list[str] = []
    branches: Counter[str] = Counter()
    for node in nodes:
        if len(chosen) == count:
            break
        if branches[node.branch] < per_branch:
            branches[node.branch] += 1
            chosen.append(node.id)
    return tuple(chosen)
