"""A preset as a point of the one option space.

Knows how options become a search. Does not know any preset.
"""

from __future__ import annotations

from pike.core.budget import Budget
from pike.core.step import Role
from pike.search.composite import Composite
from pike.search.options import Options
from pike.search.preset import Preset

Point = Preset[Options]


def point(name: str, summary: str, options: Options, own_models: tuple[Role, ...] = ()) -> Point:
    """The preset `name`.

    Args:
        name: what the user writes.
        summary: one line for lists.
        options: all dials.
        own_models: roles that need a model of their own, or the preset means nothing.
    """
    return Preset(name, summary, options, _build, _most_queries, own_models)


MOST_FREE_STEPS = 300
"""Steps that cost no query are so many at most where the query budget is zero."""


def _build(options: Options, budget: Budget, run_seed: int) -> Composite:
    queries = (budget.queries or MOST_FREE_STEPS) if options.free else budget.queries
    return Composite(options, queries, run_seed)


def _most_queries(options: Options, budget: Budget) -> int:
    return options.most_queries(budget.queries)
