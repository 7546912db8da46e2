"""The library of PIKE-O: OpenEvolve's own evolutionary database, kept pure.

Knows how the package `openevolve` is driven. Does not know steps, queries or verdicts (`composite`
does). Importing this room does not import `openevolve`; making a library does.
"""

from pike.search.evolution.database import open_database
from pike.search.evolution.library import FITNESS, EvolutionLibrary, Population, population

__all__ = ["FITNESS", "EvolutionLibrary", "Population", "open_database", "population"]
