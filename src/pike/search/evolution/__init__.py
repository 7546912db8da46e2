"""The library of PIKE-O: OpenEvolve's own evolutionary database, kept pure.

Knows the options of an evolutionary population and how the package `openevolve` is driven. Does not know steps,
queries or verdicts (`composite` does). Importing this room does not import `openevolve`; making a library does.
"""

from pike.search.evolution.database import open_database
from pike.search.evolution.library import FITNESS, EvolutionLibrary, Population, population
from pike.search.evolution.options import EvolutionOptions, Ratios

__all__ = ["FITNESS", "EvolutionLibrary", "EvolutionOptions", "Population", "Ratios", "open_database", "population"]
