"""Budgets and what was spent of them.

Knows addition and comparison. Does not know prices (`llm`) nor what a query is for (`engine`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend; None means no limit of that kind.

    Attributes:
        queries: COA and EFA calls (ADR 0003 says what counts as one).
        usd: money.
        tokens: input plus output tokens; the limit that rules where a price is unknown.
    """

    queries: int = 300
    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What has been spent.

    Attributes:
        queries: budgeted queries.
        usd: known money.
        tokens: input plus output tokens.
        unpriced: calls whose price is unknown (their tokens count, their money does not).
    """

    queries: int = 0
    usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            self.queries + other.queries,
            self.usd + other.usd,
            self.tokens + other.tokens,
            self.unpriced + other.unpriced,
        )

    def within(self, budget: Budget) -> bool:
        """Whether this spend exceeds no limit of `budget`."""
        return (
            self.queries <= budget.queries
            and (budget.usd is None or self.usd <= budget.usd)
            and (budget.tokens is None or self.tokens <= budget.tokens)
        )
