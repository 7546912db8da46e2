"""The options of branching search: every dial of PIKE-B, the published behaviour and the better one by name.

Knows the values and their ranges. Does not know how they are acted on (`branching`) nor which preset sets
which of them (`branching.PRESETS`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pike.core.errors import UserError


class Choice(StrEnum):
    """A closed set of option values whose refusal lists them."""

    @classmethod
    def _missing_(cls, _value: object) -> Any:
        raise ValueError("choose " + " or ".join(repr(member.value) for member in cls))


class Memory(Choice):
    """Which solutions may become seeds of the next round."""

    ROUND = "round"
    """Published: those of the last round only, so that the best solution of the run can drop out."""
    RUN = "run"
    """All of the run (elitist): the best solution so far is always a seed."""


class Diversity(Choice):
    """Whether branches compete for seed slots."""

    GLOBAL_SORT = "global-sort"
    """Published: the fastest ones, even if all descend from one parent."""
    DISTINCT = "distinct"
    """The fastest ones, but at most `per_branch` with the same parent. Each child of the original model is
    a branch of its own. Slots that stay empty are shared as if there were fewer solutions."""


class BudgetCheck(Choice):
    """When the query budget is looked at."""

    QUERY = "query"
    """Before every query; the budget is never exceeded."""
    ROUND = "round"
    """Published: before a whole round, whose first queries are then all asked; a run of N queries can end at
    N - 1 + `queries_per_round` (309 for 300). Fixes are still checked one by one."""


class FixOrder(Choice):
    """Who gets the remaining queries of a round when they do not suffice for all fixes."""

    SAMPLE = "sample"
    """Published: the first sample takes all its attempts, then the second; late samples starve."""
    FAIR = "fair"
    """The sample with the fewest attempts first."""


class RoundEnd(Choice):
    """What the next round waits for."""

    ALL = "all"
    """Published: every sample of the round. Decisions do not depend on how long an evaluation takes."""
    QUORUM = "quorum"
    """The part `quorum` of the samples; the late ones join the next pool. Quicker, and dependent on speed."""


class Seeding(Choice):
    """Where round 0 starts when solutions were admitted from outside (recipe seeds)."""

    ORIGINAL = "original"
    """At the original model, as published; the admitted ones compete for the seed slots of round 1."""
    SEEDS = "seeds"
    """At the fastest admitted ones; the original fills one slot while there are fewer than `top_k`."""
    BOTH = "both"
    """At the `top_k` - 1 fastest admitted ones (at least one) and always at the original."""


class Duplicates(Choice):
    """What becomes of a solution whose source is the same as another one's."""

    KEEP = "keep"
    """Published: both can be seeds of one round."""
    ONCE = "once"
    """Only the first in the order of selection can."""


@dataclass(frozen=True, slots=True)
class BranchingOptions:
    """Every dial of branching search; the defaults are preset `pike-b`.

    They are the published values (arXiv 2511.16964), except `budget_check`, whose published value spends more
    than the user allowed.

    Attributes:
        queries_per_round: first attempts of a round.
        top_k: seeds of a round.
        fix_attempts: error fixes of one sample, 0 for none.
        ideas: ask the brainstorming agent before round 0.
        memory: which solutions may become seeds.
        diversity: whether branches compete for seed slots.
        per_branch: seeds with the same parent, for `distinct`.
        budget_check: when the query budget is looked at.
        fix_order: who gets scarce queries.
        round_end: what the next round waits for.
        quorum: the part of a round's samples to wait for, for `quorum`.
        seeding: where round 0 starts when there are admitted solutions.
        duplicates: what becomes of a repeated solution.
        temperature: sampling temperature of every role.
        max_output_tokens: output limit of every role, thinking included.

    Raises:
        UserError: a value is out of its range.
    """

    queries_per_round: int = 10
    top_k: int = 4
    fix_attempts: int = 5
    ideas: bool = True
    memory: Memory = Memory.ROUND
    diversity: Diversity = Diversity.GLOBAL_SORT
    per_branch: int = 1
    budget_check: BudgetCheck = BudgetCheck.QUERY
    fix_order: FixOrder = FixOrder.SAMPLE
    round_end: RoundEnd = RoundEnd.ALL
    quorum: float = 0.8
    seeding: Seeding = Seeding.BOTH
    duplicates: Duplicates = Duplicates.KEEP
    temperature: float = 0.8
    max_output_tokens: int = 32_000

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise UserError(f"Setting 'strategy.{name}' must be at least {least}, not {getattr(self, name)}")
        if not 0.0 < self.quorum <= 1.0:
            raise UserError(f"Setting 'strategy.quorum' must be above 0 and at most 1, not {self.quorum}")
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= 2.0):
            raise UserError(f"Setting 'strategy.temperature' must be between 0 and 2, not {self.temperature}")

    def samples_to_wait_for(self, size: int) -> int:
        """How many of `size` samples must be closed before the next round begins."""
        if self.round_end is RoundEnd.ALL:
            return size
        return max(1, math.ceil(self.quorum * size - 1e-9))

    def most_queries(self, budget_queries: int) -> int:
        """The most queries that a run with this budget can ask for."""
        if self.budget_check is BudgetCheck.QUERY or budget_queries <= 0:
            return max(0, budget_queries)
        return budget_queries - 1 + self.queries_per_round


_AT_LEAST = {"queries_per_round": 1, "top_k": 1, "fix_attempts": 0, "per_branch": 1, "max_output_tokens": 1}
