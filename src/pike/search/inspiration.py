"""Which further candidates a step shows beside its seed.

Knows the tree, the library and which part of them a role sees. Does not know how they are shown
(`agents`). The original model is left out, because every prompt shows it.
"""

from pike.core.step import ORIGINAL, Role
from pike.search.options.prompting import Drawn, Fastest, Windows
from pike.search.options.search import SearchOptions
from pike.search.options.selection import ByRatio
from pike.search.parts import Library, Move
from pike.search.sample import Sample
from pike.search.tree import CandidateTree, distinct


class Inspirations:
    """The candidates to show, by `options.inspiration`."""

    def __init__(self, options: SearchOptions, library: Library, tree: CandidateTree) -> None:
        self._shown = options.inspiration
        self._failures = options.failures
        self._drawn_with_seed = isinstance(options.selection, ByRatio)
        self._library = library
        self._tree = tree

    def of_move(self, move: Move) -> tuple[str, ...]:
        """The inspirations of a new sample, for all its steps that write a candidate."""
        if move.failing is not None:
            return ()
        if isinstance(self._shown, Fastest):
            nodes = self._library.fastest(self._shown.count + 1)
            return distinct([[node.id for node in nodes]], [move.draw.seed])[: self._shown.count]
        if isinstance(self._shown, Drawn):
            draw = move.draw if self._drawn_with_seed else self._library.draw()
            return distinct([draw.inspirations], [move.draw.seed, ORIGINAL])
        return ()

    def of_step(self, role: Role, sample: Sample) -> tuple[str, ...]:
        """The inspirations of one step: its role's window, or those of its sample if it writes."""
        if isinstance(self._shown, Windows):
            return self._window(self._shown, role, sample)
        return () if role.repairs else sample.inspirations

    def failed(self, sample: Sample) -> tuple[str, ...]:
        """What failed before, the newest first: of the same seed, or of the chain that is repaired."""
        if sample.failing:
            chain = [*reversed(sample.refused), *self._tree.refused_above(sample.move.failing)]
            return distinct([chain], [sample.failing])[: self._failures]
        if not self._failures:
            return ()
        return self._tree.newest_refused(sample.move.draw.seed, self._failures)

    def _window(self, shown: Windows, role: Role, sample: Sample) -> tuple[str, ...]:
        """STARK's windows (arXiv 2510.16996), without the step's seed and failing candidate."""
        seed, tree = sample.move.draw.seed, self._tree
        if role.repairs:
            under = sample.move.failing.under if sample.move.failing else seed
            siblings = tree.newest_children(under, shown.relatives, but=sample.move.under)
            return distinct([siblings], [seed, sample.failing, ORIGINAL])
        children = tree.newest_children(seed, shown.relatives)
        if role is Role.CODE:
            return distinct([children, tree.newest_nephews(seed, shown.relatives)], [seed])
        leaders = [node.id for node in tree.leaders(shown.leaders + 1) if node.id != seed]
        return distinct([children, leaders[: shown.leaders]], [seed])
