"""Which further candidates a step shows beside its seed.

Knows the tree, the library and who sees what of them. Does not know how they are shown (`agents`). The original model
is never among them, because every prompt shows it.
"""

from __future__ import annotations

from pike.core.step import ORIGINAL, Role
from pike.search.allocation import Sample
from pike.search.choices import InspirationKind, SelectionKind
from pike.search.family import Family, distinct
from pike.search.options import Options
from pike.search.parts import Library, Move


class Inspirations:
    """What is shown, by `options.inspiration`."""

    def __init__(self, options: Options, library: Library, family: Family) -> None:
        self._options = options
        self._library = library
        self._family = family

    def of_move(self, move: Move) -> tuple[str, ...]:
        """What a new sample shows in all its steps that write a candidate, fixed when it begins."""
        if move.failing is not None:
            return ()
        if self._options.inspiration is InspirationKind.TOP:
            nodes = self._library.fastest(self._options.shown + 1)
            return distinct([[node.id for node in nodes]], [move.draw.seed])[: self._options.shown]
        if self._options.inspiration is InspirationKind.LIBRARY:
            drawn = self._options.selection is SelectionKind.RATIO
            draw = move.draw if drawn else self._library.draw()
            return distinct([draw.inspirations], [move.draw.seed, ORIGINAL])
        return ()

    def of_step(self, role: Role, sample: Sample) -> tuple[str, ...]:
        """What one step shows: the windows of its role, or what its sample does; a repair shows no seeds of others."""
        if self._options.inspiration is InspirationKind.WINDOWS:
            return self._window(role, sample)
        return () if role.repairs else sample.inspirations

    def _window(self, role: Role, sample: Sample) -> tuple[str, ...]:
        """STARK's windows (arXiv 2510.16996); the node itself is the step's seed or failing candidate."""
        seed, most, family = sample.move.draw.seed, self._options.relatives, self._family
        if role.repairs:
            under = sample.move.failing.under if sample.move.failing else seed
            siblings = family.newest_children(under, most, but=sample.move.under)
            return distinct([siblings], [seed, sample.failing, ORIGINAL])
        children = family.newest_children(seed, most)
        if role is Role.CODE:
            return distinct([children, family.newest_nephews(seed, most)], [seed])
        leaders = [node.id for node in family.leaders(self._options.shown + 1) if node.id != seed]
        return distinct([children, leaders[: self._options.shown]], [seed])
