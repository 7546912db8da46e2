"""The published strategies that need no package of their own, as points of the option space.

Knows their parameters and where those come from. Does not know how an option is acted on. Values that no source gives
are ours and are marked so. `round_end` is `all` in every preset: a quorum makes a run depend on how long evaluations
take, which no comparison at equal budget can use.
"""

from __future__ import annotations

from dataclasses import replace

from pike.core.step import Role
from pike.search.choices import (
    Diversity,
    Duplicates,
    Fixer,
    FixOrder,
    InspirationKind,
    LibraryKind,
    Memory,
    Pacing,
    Repair,
    Roles,
    SelectionKind,
    Writer,
)
from pike.search.options import Options
from pike.search.point import Point, point

PIKE_B: tuple[Point, ...] = (
    point("pike-b", "branching search as published, but never above the budget", Options()),
    point(
        "pike-b:cheap-efa",
        "pike-b with a cheaper model of your choice for error fixing",
        Options(),
        own_models=(Role.FIX,),
    ),
    point("pike-b:no-efa", "pike-b without error fixing", Options(fix_attempts=0)),
    point("pike-b:no-iba", "pike-b without brainstormed ideas", Options(ideas=False)),
    point(
        "pike-b:elitist",
        "pike-b that never forgets its best, spreads over branches and shares fixes fairly",
        Options(
            memory=Memory.RUN,
            diversity=Diversity.DISTINCT,
            per_branch=2,
            fix_order=FixOrder.FAIR,
            duplicates=Duplicates.ONCE,
        ),
    ),
)
"""PIKE-B (arXiv 2511.16964)."""

_PLAIN = Options(pacing=Pacing.STEADY, memory=Memory.RUN, ideas=False)
"""No rounds, no ideas, and nothing forgotten."""

BEST_OF_N: tuple[Point, ...] = (
    point(
        "best-of-n",
        "independent attempts at the original model, nothing repaired",
        replace(_PLAIN, selection=SelectionKind.ORIGINAL, repair=Repair.NONE),
    ),
)
"""The sampling baseline of STARK's paper (arXiv 2510.16996) and of many others."""

UNLIMITED = 1000
"""Repairs of one line where the source sets no limit."""

REFLEXION: tuple[Point, ...] = (
    point(
        "reflexion",
        "one chain: each attempt revises the last one, failing or not",
        replace(_PLAIN, in_flight=1, selection=SelectionKind.LAST, repair=Repair.DEFERRED, fix_attempts=UNLIMITED),
    ),
)
"""The single chain of STARK's paper (arXiv 2510.16996)."""

METR: tuple[Point, ...] = (
    point(
        "metr",
        "8 first attempts, then new ones from the best, drawn in proportion to their speed",
        replace(
            _PLAIN,
            in_flight=8,
            first_attempts=8,
            selection=SelectionKind.WEIGHTED,
            top_k=8,
            repair=Repair.NONE,
        ),
    ),
)
"""METR's KernelBench agent, as the PIKE paper compares with it; that the best are 8 is ours."""

RECIPES: tuple[Point, ...] = (
    point(
        "recipes",
        "compositions of recipes, the most promising first, then neighbours of the best; asks no model, costs no query",
        replace(
            _PLAIN,
            ideas=True,
            first_attempts=6,
            selection=SelectionKind.TOP_K,
            top_k=1,
            duplicates=Duplicates.ONCE,
            repair=Repair.NONE,
            writer=Writer.RECIPES,
        ),
    ),
)
"""Ours. Its ideas are compositions, the first attempts carry them out, and the agent changes one recipe of the best."""

_STARK = Options(
    pacing=Pacing.STEADY,
    in_flight=1,
    ideas=False,
    library=LibraryKind.TREE,
    selection=SelectionKind.EPSILON_GREEDY,
    inspiration=InspirationKind.WINDOWS,
    repair=Repair.DEFERRED,
    fix_attempts=UNLIMITED,
    fixer=Fixer.DEBUG,
    roles=Roles.PLAN_CODE,
)

STARK: tuple[Point, ...] = (
    point("stark", "tree search with planning, coding and debugging agents", _STARK),
    point(
        "stark:search-only",
        "stark's tree with one agent for everything",
        replace(_STARK, roles=Roles.OPTIMISE, fixer=Fixer.EFA),
    ),
    point(
        "stark:ma-only",
        "stark's agents without the tree: independent attempts, the best of them",
        replace(_STARK, in_flight=20, selection=SelectionKind.ORIGINAL, repair=Repair.IMMEDIATE, fix_attempts=3),
    ),
)
"""STARK (arXiv 2510.16996), which published no code. Ours are: epsilon 0.35 of the 0.3 to 0.4 given, 5 children of the
original, 3 refused children of a node, 5 leaders, 8 relatives, one node at a time (`in_flight`), and 3 debugging
attempts in a sample of `ma-only`. Its budget of 30 attempts is the user's query budget."""
