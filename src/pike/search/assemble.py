"""From options to parts: the library and the selection that a search uses.

Knows which class carries out which option. Does not know what the classes do.
"""

from pike.core.rng import stream
from pike.search.evolution import EvolutionLibrary
from pike.search.options.library import Islands, Memory, Pool
from pike.search.options.prompting import Drawn
from pike.search.options.repair import Deferred
from pike.search.options.search import SearchOptions
from pike.search.options.selection import ByRatio, EpsilonGreedy, Latest, Rest, TopK, Weighted
from pike.search.parts import Library, Selection
from pike.search.pool import SolutionPool
from pike.search.selection.chain import LatestSelection
from pike.search.selection.deferred import DeferredRepairs
from pike.search.selection.epsilon_greedy import EpsilonGreedySelection
from pike.search.selection.original import DrawnSelection, OriginalSelection
from pike.search.selection.top_k import TopKSelection, WeightedSelection
from pike.search.tree import CandidateTree


def make_library(options: SearchOptions, run_seed: int) -> Library:
    """The library of a search."""
    library, shown = options.library, options.inspiration
    drawn = shown if isinstance(shown, Drawn) else Drawn(0, 0)
    ratio = _ratio(options)
    if isinstance(library, Islands):
        return EvolutionLibrary(library, ratio, drawn, stream(run_seed, "evolution"))
    # The tree itself is always kept: as a library it is a pool that forgets nothing.
    pool = library if isinstance(library, Pool) else Pool(Memory.RUN)
    return SolutionPool(pool, ratio, drawn.top, run_seed)


def _ratio(options: SearchOptions) -> ByRatio:
    """How the library draws; for a selection that does not draw, only inspirations depend on it."""
    selection = options.selection
    if isinstance(selection, ByRatio):
        return selection
    elites = selection.k if isinstance(selection, TopK | Weighted) else TopK().k
    return ByRatio(elites=elites, rest=Rest.ISLAND)


def make_selection(options: SearchOptions, library: Library, tree: CandidateTree, run_seed: int) -> Selection:
    """The selection of a search, with the moves of its deferred repairs."""
    selection = _selection(options, library, tree, run_seed)
    if isinstance(options.repair, Deferred):
        return DeferredRepairs(options.repair, selection, tree, forgets=options.forgets)
    return selection


def _selection(options: SearchOptions, library: Library, tree: CandidateTree, run_seed: int) -> Selection:
    chosen, cost = options.selection, options.roles.queries
    if isinstance(chosen, TopK):
        return TopKSelection(options, chosen, library)
    if isinstance(chosen, Weighted):
        return WeightedSelection(options, chosen, library, run_seed)
    if isinstance(chosen, ByRatio):
        return DrawnSelection(cost, library)
    if isinstance(chosen, EpsilonGreedy):
        return EpsilonGreedySelection(options, chosen, library, tree, run_seed)
    if isinstance(chosen, Latest):
        return LatestSelection(options, chosen, tree)
    return OriginalSelection(cost)
