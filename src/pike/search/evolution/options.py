"""The dials of an evolutionary population.

Knows the values of PIKE-O and their ranges. Does not know what OpenEvolve calls them (`database`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pike.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Ratios:
    """How seeds are drawn; what is left of 1 is drawn from the island by chance, in proportion to fitness.

    Attributes:
        exploration: the part drawn from the whole island, each program alike.
        exploitation: the part drawn from the archive, from the island's own elites where there are any.
    """

    exploration: float = 0.2
    exploitation: float = 0.7


@dataclass(frozen=True, slots=True)
class EvolutionOptions:
    """Every dial of the evolutionary library; the defaults are PIKE-O's (arXiv 2511.16964).

    Attributes:
        population: programs kept over all islands, the original model included.
        archive: elites that exploitation draws from.
        islands: separate populations.
        migration_interval: solutions that an island takes before the best of each go to its neighbours.
        migration_rate: the part of an island that migrates.
        elite_ratio: the part of the inspirations that is taken from the top of the island.
        bins: cells of the feature grid along each of its two axes, length of the source and distance to others.
        top: the fastest programs of the seed's island that a crossover prompt shows.
        inspirations: how many programs it shows beside those (not published: the default of OpenEvolve 0.4).

    Raises:
        UserError: a value is out of its range.
    """

    population: int = 25
    archive: int = 12
    islands: int = 3
    migration_interval: int = 50
    migration_rate: float = 0.1
    elite_ratio: float = 0.2
    bins: int = 10
    top: int = 3
    inspirations: int = 2

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise UserError(
                    f"Setting 'strategy.evolution.{name}' must be at least {least}, not {getattr(self, name)}"
                )
        for name in _SHARES:
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise UserError(f"Setting 'strategy.evolution.{name}' must be between 0 and 1, not {value}")


_AT_LEAST = {
    "population": 2,
    "archive": 1,
    "islands": 1,
    "migration_interval": 1,
    "bins": 1,
    "top": 0,
    "inspirations": 0,
}
_SHARES = ("migration_rate", "elite_ratio")
