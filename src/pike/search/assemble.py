"""Options to parts: which class stands behind which word.

Knows every library and selection by its option value. Does not know what they do.
"""

from __future__ import annotations

from dataclasses import replace

from pike.core.rng import stream
from pike.search.choices import InspirationKind, LibraryKind, SelectionKind
from pike.search.deferring import Deferring
from pike.search.evolution import EvolutionLibrary, Ratios
from pike.search.family import Family
from pike.search.greedy import EpsilonGreedy
from pike.search.options import Options
from pike.search.parts import Library, Selection
from pike.search.pool import Everything, Pool
from pike.search.selection import Drawn, Last, Original, TopK, Weighted


def make_library(options: Options, run_seed: int) -> Library:
    """What remembers solutions. A library that needs an extra is imported here, when it is chosen.

    Raises:
        UserError: it needs an extra that is not installed.
    """
    if options.library is LibraryKind.EVOLUTION:
        return _evolution(options, run_seed)
    if options.library is LibraryKind.TREE:
        return Everything(options, run_seed)
    return Pool(options, run_seed)


def _evolution(options: Options, run_seed: int) -> EvolutionLibrary:
    """OpenEvolve's database; where nobody shows inspirations, it draws none."""
    population = options.evolution
    if options.inspiration is not InspirationKind.LIBRARY:
        population = replace(population, top=0, inspirations=0)
    ratios = Ratios(options.exploration, options.exploitation)
    return EvolutionLibrary(population, ratios, stream(run_seed, "evolution"))


def make_selection(options: Options, library: Library, family: Family, run_seed: int) -> Selection:
    """What chooses moves, deferred repairs included."""
    kind = options.selection
    if kind is SelectionKind.EPSILON_GREEDY:
        return EpsilonGreedy(options, library, family, run_seed)
    if kind is SelectionKind.LAST:
        return Last(options, family)
    others: Selection = _selection(options, library, run_seed)
    return Deferring(options, others, family) if options.later else others


def _selection(options: Options, library: Library, run_seed: int) -> Selection:
    kind = options.selection
    if kind is SelectionKind.TOP_K:
        return TopK(options, library)
    if kind is SelectionKind.WEIGHTED:
        return Weighted(options, library, run_seed)
    return Drawn(options, library) if kind is SelectionKind.RATIO else Original(options)
