"""The closed sets of values that options of a search can take, each with what it means.

Knows the words. Does not know numbers and their ranges (`options`) or how anything is acted on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Choice(StrEnum):
    """A closed set of option values whose refusal lists them."""

    @classmethod
    def _missing_(cls, _value: object) -> Any:
        raise ValueError("choose " + " or ".join(repr(member.value) for member in cls))


class Pacing(Choice):
    """When samples begin."""

    ROUNDS = "rounds"
    """`queries_per_round` at once, the next ones when the round is over (`round_end`)."""
    STEADY = "steady"
    """One whenever fewer than `in_flight` are open."""


class LibraryKind(Choice):
    """What remembers solutions."""

    POOL = "pool"
    """The valid solutions, as far as `memory`, `archive_size` and `duplicates` let them stay."""
    EVOLUTION = "evolution"
    """Islands, feature grids and an archive in OpenEvolve's database (needs the extra `openevolve`)."""
    TREE = "tree"
    """Every node of the run, refused ones too; nothing is ever forgotten."""


class Memory(Choice):
    """Which solutions of a pool may become seeds of the next round."""

    ROUND = "round"
    """Published: those of the last round only, so that the best solution of the run can drop out."""
    RUN = "run"
    """All of the run (elitist): the best solution so far is always a seed."""


class Duplicates(Choice):
    """What becomes of a solution whose source is the same as another one's."""

    KEEP = "keep"
    """Published: both can be seeds of one round."""
    ONCE = "once"
    """Only the first in the order of selection can."""


class SelectionKind(Choice):
    """Which solution a new sample starts from."""

    TOP_K = "top-k"
    """The `top_k` fastest in equal shares, the original filling a slot while there are fewer (PIKE-B)."""
    RATIO = "ratio"
    """The library draws: explore, exploit or chance, by its own ratios (PIKE-O)."""
    EPSILON_GREEDY = "epsilon-greedy"
    """The best node that may still be expanded, or with probability `epsilon` any leaf (STARK)."""
    ORIGINAL = "original"
    """Always the original model: independent attempts."""
    LAST = "last"
    """The latest candidate, whatever became of it: a chain of revisions."""
    WEIGHTED = "weighted"
    """One of the `top_k` fastest, drawn in proportion to its speed."""


class Diversity(Choice):
    """Whether branches compete for the slots of `top-k`."""

    GLOBAL_SORT = "global-sort"
    """Published: the fastest ones, even if all descend from one parent."""
    DISTINCT = "distinct"
    """The fastest ones, but at most `per_branch` with the same parent. Each child of the original model is
    a branch of its own. Slots that stay empty are shared as if there were fewer solutions."""


class Seeding(Choice):
    """Where the first samples of `top-k` and `weighted` start when solutions were admitted from outside."""

    ORIGINAL = "original"
    """At the original model, as published; the admitted ones compete for the seed slots of round 1."""
    SEEDS = "seeds"
    """At the fastest admitted ones; the original fills one slot while there are fewer than `top_k`."""
    BOTH = "both"
    """At the `top_k` - 1 fastest admitted ones (at least one) and always at the original."""


class InspirationKind(Choice):
    """Which further candidates a step shows beside its seed."""

    NONE = "none"
    """Mutation: the seed only."""
    LIBRARY = "library"
    """Crossover: what the library draws."""
    WINDOWS = "windows"
    """STARK's windows: each role sees its own part of the tree."""
    TOP = "top"
    """The `shown` fastest that the library holds."""


class Repair(Choice):
    """When a refused candidate is repaired."""

    IMMEDIATE = "immediate"
    """At once, within its sample."""
    DEFERRED = "deferred"
    """By a move of its own, which is chosen among others; its sample is over."""
    NONE = "none"
    """Never, as with `fix_attempts` 0."""


class Fixer(Choice):
    """Which role repairs."""

    EFA = "efa"
    """PIKE's error fixing agent."""
    DEBUG = "debug"
    """STARK's debugging agent, which also sees the plan and, with `windows`, the sibling candidates."""


class FixOrder(Choice):
    """Which refused candidate is repaired first, and who gets the remaining queries when they do not suffice."""

    SAMPLE = "sample"
    """Published: the first sample takes all its attempts, then the second; late samples starve."""
    FAIR = "fair"
    """The sample with the fewest attempts first."""


class Roles(Choice):
    """Who writes a new candidate."""

    OPTIMISE = "optimise"
    """The code optimisation agent, in one query."""
    PLAN_CODE = "plan-code"
    """A planning agent and then a coding agent: two queries that are only begun together."""


class ScopeKind(Choice):
    """How far a rewrite is asked to go from its seed."""

    ANY = "any"
    """Prompts say nothing about it."""
    ADAPTIVE = "adaptive"
    """Small steps after a gain, another approach after `plateau` samples without one."""


class BudgetCheck(Choice):
    """When the query budget is looked at."""

    QUERY = "query"
    """Before every query; the budget is never exceeded."""
    ROUND = "round"
    """Published: before a whole round, whose first queries are then all asked; a run of N queries can end at
    N - 1 + `queries_per_round` (309 for 300). Fixes are still checked one by one."""


class RoundEnd(Choice):
    """What the next round waits for."""

    ALL = "all"
    """Published: every sample of the round. Decisions do not depend on how long an evaluation takes."""
    QUORUM = "quorum"
    """The part `quorum` of the samples; the late ones join the next pool. Quicker, and dependent on speed."""


class Writer(Choice):
    """Who answers the steps."""

    MODELS = "models"
    """The models that the user chose; recipes where that is `none`."""
    RECIPES = "recipes"
    """Recipes, whatever models the user chose."""
