"""Selections of the fastest: the `k` fastest in equal shares, or one of them drawn by its speed.

Knows slots, shares and weights. Does not know the tree, repairs or the budget.
"""

from collections import Counter
from collections.abc import Sequence

from pike.core.rng import stream
from pike.core.step import ORIGINAL
from pike.search.allocation import plan_seeds
from pike.search.options.pacing import Rounds
from pike.search.options.search import SearchOptions
from pike.search.options.selection import Seeding, TopK, Weighted
from pike.search.parts import OUTSIDE, Library, Node, SearchState, SeedDraw
from pike.search.selection.original import OriginalSelection


class TopKSelection(OriginalSelection):
    """The `k` fastest in equal shares (PIKE-B); the first samples start as `seeding` says."""

    def __init__(self, options: SearchOptions, chosen: TopK | Weighted, library: Library) -> None:
        super().__init__(options.roles.queries)
        self._pacing = options.pacing
        self._k = chosen.k
        self._seeding = chosen.seeding
        self._distinct = chosen.distinct if isinstance(chosen, TopK) else 0
        self._library = library
        self._islands: dict[str, int] = {}
        self._admitted = False

    def learn(self, node: Node) -> None:
        """Remember its island, and whether any solution was admitted from outside."""
        self._islands[node.id] = node.island
        self._admitted = self._admitted or node.round == OUTSIDE

    def seeds(self, size: int, state: SearchState) -> Sequence[SeedDraw]:
        """Equal shares of the slots in a round; without rounds, one slot after the other."""
        slots = self._first_slots() if self.is_first(state) else self._slots()
        in_rounds = isinstance(self._pacing, Rounds)
        chosen = plan_seeds(slots, size) if in_rounds else [slots[state.samples % len(slots)]]
        return [self.draw_of(seed) for seed in chosen]

    def draw_of(self, seed: str) -> SeedDraw:
        """This seed, on its own island."""
        return SeedDraw(seed, island=self._islands.get(seed, 0))

    def is_first(self, state: SearchState) -> bool:
        """Whether the next samples are first ones, which start as `seeding` says."""
        if isinstance(self._pacing, Rounds):
            return state.round == 0
        return state.samples < self._pacing.first_attempts

    def _first_slots(self) -> tuple[str, ...]:
        if self._seeding is Seeding.ORIGINAL or not self._admitted:
            return (ORIGINAL,)
        if self._seeding is Seeding.BOTH:
            return (*self._fastest(max(1, self._k - 1)), ORIGINAL)
        return self._slots()

    def _slots(self) -> tuple[str, ...]:
        fastest = self._fastest(self._k)
        return fastest if len(fastest) >= self._k else (*fastest, ORIGINAL)

    def _fastest(self, count: int) -> tuple[str, ...]:
        if not self._distinct:
            return tuple(node.id for node in self._library.fastest(count))
        looked_at = 4 * count
        while True:
            nodes = self._library.fastest(looked_at)
            chosen = _spread(nodes, count, self._distinct)
            if len(chosen) == count or len(nodes) < looked_at:
                return chosen
            looked_at *= 4


class WeightedSelection(TopKSelection):
    """One of the `k` fastest, in proportion to its speed (METR)."""

    def __init__(self, options: SearchOptions, chosen: Weighted, library: Library, run_seed: int) -> None:
        super().__init__(options, chosen, library)
        self._run_seed = run_seed

    def seeds(self, size: int, state: SearchState) -> Sequence[SeedDraw]:
        """First samples as in `TopKSelection`; later ones are drawn among valid solutions."""
        if self.is_first(state):
            return super().seeds(size, state)
        nodes = self._library.fastest(self._k)
        if not nodes:
            return [SeedDraw()] * size
        weights = [1.0 / max(node.ms, 1e-9) for node in nodes]
        rngs = (stream(self._run_seed, f"weighted {state.moves + index}") for index in range(size))
        return [self.draw_of(rng.choices(nodes, weights)[0].id) for rng in rngs]


def _spread(nodes: Sequence[Node], count: int, per_branch: int) -> tuple[str, ...]:
    """The first `count` ids of `nodes`, at most `per_branch` of one branch."""
    chosen: list[str] = []
    branches: Counter[str] = Counter()
    for node in nodes:
        if len(chosen) == count:
            break
        if branches[node.branch] < per_branch:
            branches[node.branch] += 1
            chosen.append(node.id)
    return tuple(chosen)
