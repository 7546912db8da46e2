"""The published strategies that need no package of their own, as points of the option space.

Knows their parameters and where those come from. Does not know how an option acts. Values that no
source gives are ours and are marked so. Every preset in rounds has quorum 1: a lower one makes a
run depend on how long evaluations take, which a comparison at equal budget cannot use.
"""

from dataclasses import replace

from pike.core.step import Role
from pike.search.options.library import Duplicates, Memory, Pool, Tree
from pike.search.options.pacing import Steady
from pike.search.options.prompting import Optimise, PlanCode, Windows, Wording
from pike.search.options.repair import Chosen, Debug, FixOrder, Immediate, NoRepair
from pike.search.options.search import SearchOptions, Writer
from pike.search.options.selection import EpsilonGreedy, Latest, OriginalOnly, TopK, Weighted
from pike.search.presets.preset import Point, point

PIKE_B: tuple[Point, ...] = (
    point("pike-b", "branching search as published, but never above the budget", SearchOptions()),
    point(
        "pike-b:cheap-efa",
        "pike-b with a cheaper model of your choice for error fixing",
        SearchOptions(),
        own_models=(Role.FIX,),
    ),
    point("pike-b:no-efa", "pike-b without error fixing", SearchOptions(repair=NoRepair())),
    point("pike-b:no-iba", "pike-b without brainstormed ideas", SearchOptions(ideas=False)),
    point(
        "pike-b:daring",
        "pike-b with prompts that ask for large steps and show examples, profiles and earlier failures",
        SearchOptions(wording=Wording.DARING, failures=3, profile=True),
    ),
    point(
        "pike-b:elitist",
        "pike-b that never forgets its best, spreads over branches and shares fixes fairly",
        SearchOptions(
            library=Pool(Memory.RUN, duplicates=Duplicates.ONCE),
            selection=TopK(4, distinct=2),
            repair=Immediate(5, FixOrder.FAIR),
        ),
    ),
)
"""PIKE-B (arXiv 2511.16964)."""

_PLAIN = SearchOptions(pacing=Steady(in_flight=20), library=Pool(Memory.RUN), repair=NoRepair(), ideas=False)
"""No rounds, no ideas, no repairs, and nothing forgotten."""

BEST_OF_N: tuple[Point, ...] = (
    point(
        "best-of-n",
        "independent attempts at the original model, nothing repaired",
        replace(_PLAIN, selection=OriginalOnly()),
    ),
)
"""The sampling baseline of STARK's paper (arXiv 2510.16996) and of many others."""

UNLIMITED = 1000
"""Repairs of one candidate where the source sets no limit."""

REFLEXION: tuple[Point, ...] = (
    point(
        "reflexion",
        "one chain: each attempt revises the last one, failing or not",
        replace(_PLAIN, pacing=Steady(in_flight=1), selection=Latest(), repair=Chosen(UNLIMITED)),
    ),
)
"""The single chain of STARK's paper (arXiv 2510.16996)."""

METR: tuple[Point, ...] = (
    point(
        "metr",
        "8 first attempts, then new ones from the best, drawn in proportion to their speed",
        replace(_PLAIN, pacing=Steady(in_flight=8, first_attempts=8), selection=Weighted(8)),
    ),
)
"""METR's KernelBench agent, as the PIKE paper compares with it; that the best are 8 is ours."""

RECIPES: tuple[Point, ...] = (
    point(
        "recipes",
        "compositions of recipes, the most promising first, then neighbours of the best; asks no model, costs no query",
        replace(
            _PLAIN,
            pacing=Steady(in_flight=20, first_attempts=6),
            library=Pool(Memory.RUN, duplicates=Duplicates.ONCE),
            selection=TopK(1),
            ideas=True,
            writer=Writer.RECIPES,
        ),
    ),
)
"""Ours. Its ideas are compositions; after the first attempts, one recipe of the best changes."""

_STARK = SearchOptions(
    pacing=Steady(in_flight=1),
    library=Tree(),
    selection=EpsilonGreedy(epsilon=0.35, root_children=5, failing_children=3),
    inspiration=Windows(leaders=5, relatives=8),
    repair=Chosen(UNLIMITED, Debug()),
    roles=PlanCode(),
    profile=True,
    ideas=False,
)

STARK: tuple[Point, ...] = (
    point("stark", "tree search with planning, coding and debugging agents", _STARK),
    point(
        "stark:search-only",
        "stark's tree with one agent for everything",
        replace(_STARK, roles=Optimise(), repair=Chosen(UNLIMITED)),
    ),
    point(
        "stark:ma-only",
        "stark's agents without the tree: independent attempts, the best of them",
        replace(_STARK, pacing=Steady(in_flight=20), selection=OriginalOnly(), repair=Immediate(3, fixer=Debug())),
    ),
)
"""STARK (arXiv 2510.16996), without published code. Its 30 attempts are the query budget.

Ours are epsilon 0.35 of the 0.3 to 0.4 given, 5 children of the original, 3 refused children of a
node, 5 leaders and 8 relatives. So are one node at a time (`in_flight`), and 3 debugging attempts
in a sample of `ma-only`.
"""
