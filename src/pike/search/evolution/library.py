"""The library of PIKE-O: islands, feature grids and an archive in OpenEvolve's database.

Knows how solutions become its programs, which island a sample belongs to and which programs a
sample is drawn from. Does not know queries, repairs or roles. Decided here, because no source says
it:

- Samples go to the islands in turn; a solution joins the island that its sample was drawn for.
- Fitness is calls per second, 1 over the runtime; the original's counts as 0 until its time is
  told.
- A generation of an island is a solution that it took; refused candidates do not count.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pike.core.step import ORIGINAL, Strategy
from pike.search.evolution.database import Source, open_database
from pike.search.options.library import Islands
from pike.search.options.prompting import Drawn
from pike.search.options.selection import ByRatio, Rest
from pike.search.parts import Node, SeedDraw

FITNESS = "combined_score"
"""The metric that OpenEvolve ranks by."""
UNMODIFIED = "unmodified"
"""Marks the original model and its copies, which inherit the mark."""


@dataclass(frozen=True, slots=True)
class Population:
    """What an evolutionary library holds: candidates, and copies of them on other islands, by id.

    Attributes:
        islands: the members of each island.
        archive: the elites.
        cells: for each island, the member in each cell of the feature grid.
        generations: how many solutions each island took.
        migrated_at: the greatest generation at the last migration.
        copies: the original of each copy.
        homes: the island that each solution joined, also for solutions that have gone since.
    """

    islands: tuple[tuple[str, ...], ...]
    archive: tuple[str, ...]
    cells: tuple[Mapping[str, str], ...]
    generations: tuple[int, ...]
    migrated_at: int
    copies: Mapping[str, str]
    homes: Mapping[str, int]


class EvolutionLibrary:
    """A `Library` on OpenEvolve's `ProgramDatabase`, which it drives as OpenEvolve's own loop does.

    Args:
        rng: all its chance; the same stream and the same calls give the same draws, in every
            process.

    Raises:
        UserError: the extra `openevolve` is not installed.
    """

    def __init__(self, options: Islands, ratio: ByRatio, shown: Drawn, rng: random.Random) -> None:
        self._options = options
        self._shown, self._rest = shown, ratio.rest
        self._database, self._module = open_database(options, ratio, rng, _archive_rule)
        self._nodes: dict[str, Node] = {}
        self._generations = {ORIGINAL: 0}
        self._origins = {ORIGINAL: ORIGINAL}
        self._homes: dict[str, int] = {}
        self._drawn = 0
        self._outside = 0
        self._add(ORIGINAL, "", 0.0, None, 0)

    def add(self, node: Node) -> None:
        """Take a valid solution into its island; `ORIGINAL` tells the original's time."""
        if not node.valid:
            return
        fitness = 1000.0 / max(node.ms, 1e-9)
        if node.id == ORIGINAL:
            self._rate_original(fitness)
            return
        self._nodes[node.id] = node
        island = self._island_of(node)
        self._add(node.id, node.source, fitness, node.parent, island)
        self._database.increment_island_generation(island)
        if self._database.should_migrate():
            self._database.migrate_programs()
        self._settle()

    def begin_round(self) -> None:
        """Nothing to forget: its own rules decide what stays."""

    def holds(self, id: str) -> bool:
        """Whether the candidate or a copy of it is in the population."""
        return any(self._origin(program) == id for program in self._database.programs.values())

    def fastest(self, count: int) -> tuple[Node, ...]:
        """At most `count` solutions of the population, fastest first."""
        held = {self._origin(program) for program in self._database.programs.values()} - {ORIGINAL}
        return tuple(sorted(self._nodes[name] for name in held)[:count])

    def draw(self) -> SeedDraw:
        """A seed for the next island in turn, with the top of its island and inspirations."""
        island = self._drawn % self._options.islands
        self._drawn += 1
        if self._rest is Rest.ISLAND:
            seed, others = self._database.sample_from_island(island, self._shown.others)
        else:
            self._database.current_island = island
            seed, others = self._database.sample(self._shown.others)
        self._settle()
        shown = [*self._top(seed), *others]
        names = dict.fromkeys(self._origin(program) for program in shown)
        chosen = self._origin(seed)
        return SeedDraw(chosen, tuple(name for name in names if name not in (chosen, ORIGINAL)), island)

    def population(self) -> Population:
        """The current population."""
        database, origins = self._database, self._origins
        return Population(
            islands=tuple(tuple(island) for island in database.islands),
            archive=tuple(database.archive),
            cells=tuple(dict(grid) for grid in database.island_feature_maps),
            generations=tuple(database.island_generations),
            migrated_at=database.last_migration_generation,
            copies={name: origins[name] for name in database.programs if origins[name] != name},
            homes=dict(self._homes),
        )

    def _add(self, name: str, source: str, fitness: float, parent: str | None, island: int) -> None:
        generation = 0 if parent is None else self._generations.get(parent, 0) + 1
        self._generations[name] = generation
        self._origins[name] = name
        self._homes[name] = island
        program = self._module.Program(
            id=name, code=Source(source), parent_id=parent, generation=generation, metrics={FITNESS: fitness}
        )
        program.metadata |= {UNMODIFIED: True} if name == ORIGINAL else {}
        self._database.add(program, iteration=len(self._nodes), target_island=island)

    def _island_of(self, node: Node) -> int:
        if node.round >= 0:
            return node.island % self._options.islands
        self._outside += 1
        return (self._outside - 1) % self._options.islands

    def _rate_original(self, fitness: float) -> None:
        for program in self._database.programs.values():
            if self._origin(program) == ORIGINAL:
                program.metrics[FITNESS] = fitness

    def _top(self, seed: Any) -> list[Any]:
        if not self._shown.top:
            return []
        island = seed.metadata.get("island", 0)
        return list(self._database.get_top_programs(self._shown.top, island_idx=island))

    def _origin(self, program: Any) -> str:
        """The candidate that a program is, or is a copy of."""
        name: str = program.id
        if name not in self._origins:
            parent: str = program.parent_id
            self._origins[name] = self._origins[parent]
        return self._origins[name]

    def _settle(self) -> None:
        """Note the originals of new copies, and drop what the database collects without use."""
        for program in self._database.programs.values():
            if self._origin(program) == ORIGINAL:  # the copy that an empty island begins with lacks the mark
                program.metadata[UNMODIFIED] = True
        for stats in self._database.feature_stats.values():
            stats["values"].clear()  # read only by a scaling that is not in use, and copied at every solution


def population(strategy: Strategy) -> Population | None:
    """The population of a strategy's evolutionary library, None if it has another library."""
    library = getattr(strategy, "library", None)
    return library.population() if isinstance(library, EvolutionLibrary) else None


def _archive_rule(module: ModuleType) -> Callable[[Any, Any], Any]:
    """OpenEvolve's own archive, closed to the original model and its copies.

    A solution takes the place of the elite whose cell it took; else it joins while there is room;
    else it replaces the worst elite if it is faster.
    """

    def decide(snapshot: Any, candidate: Any) -> Any:
        if candidate.metadata.get(UNMODIFIED):
            return module.ArchiveDecision(False)
        living = frozenset[str]().union(*snapshot.islands)
        displaced = sorted(name for name in snapshot.archive if name not in living)
        if displaced:
            return module.ArchiveDecision(True, displaced[0])
        if len(snapshot.archive) < snapshot.archive_limit:
            return module.ArchiveDecision(True)
        worst = min(snapshot.archive, key=lambda name: (_fitness(snapshot.programs[name]), name))
        better = _fitness(candidate) > _fitness(snapshot.programs[worst])
        return module.ArchiveDecision(better, worst if better else None)

    return decide


def _fitness(program: Any) -> float:
    return float(program.metrics[FITNESS])
