"""What remembers solutions: a pool, the whole tree, or islands.

Knows the three kinds and their dials. Does not know how OpenEvolve calls them
(`pike.search.evolution`).
"""

from dataclasses import dataclass
from typing import ClassVar

from pike.search.options.ranges import Choice, at_least, between_0_and

_WHERE = "strategy.library"


class Memory(Choice):
    """Which solutions of a pool may become seeds of the next round."""

    ROUND = "round"
    """Published: those of the last round only, so that the best of the run can drop out."""
    RUN = "run"
    """All of the run (elitist): the best solution so far is always a seed."""


class Duplicates(Choice):
    """What happens to a solution with the same source as another one."""

    KEEP = "keep"
    """Published: both can be seeds of one round."""
    ONCE = "once"
    """Only the first in the order of selection can."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The valid solutions, as far as these dials let them stay.

    Attributes:
        memory: which solutions may become seeds of the next round.
        size: the most solutions it keeps, the fastest ones; 0 for all.
        duplicates: what happens to a repeated source.
    """

    kind: ClassVar[str] = "pool"

    memory: Memory = Memory.ROUND
    size: int = 0
    duplicates: Duplicates = Duplicates.KEEP

    def __post_init__(self) -> None:
        at_least(_WHERE, self, size=0)


@dataclass(frozen=True, slots=True)
class Tree:
    """Every solution of the run; nothing is forgotten."""

    kind: ClassVar[str] = "tree"


@dataclass(frozen=True, slots=True)
class Islands:
    """Islands, feature grids and an archive in OpenEvolve's database; needs the extra `openevolve`.

    The defaults are PIKE-O's (arXiv 2511.16964).

    Attributes:
        population: programs kept over all islands, the original model included.
        archive: elites that exploitation draws from.
        islands: separate populations.
        migration_interval: solutions that an island takes before the best migrate to its
            neighbours.
        migration_rate: the part of an island that migrates.
        elite_ratio: the part of the inspirations that comes from the top of the island.
        bins: cells of the feature grid along each of its axes: length of the source, distance to
            others.
    """

    kind: ClassVar[str] = "islands"

    population: int = 25
    archive: int = 12
    islands: int = 3
    migration_interval: int = 50
    migration_rate: float = 0.1
    elite_ratio: float = 0.2
    bins: int = 10

    def __post_init__(self) -> None:
        at_least(_WHERE, self, population=2, archive=1, islands=1, migration_interval=1, bins=1)
        between_0_and(_WHERE, self, migration_rate=1.0, elite_ratio=1.0)
