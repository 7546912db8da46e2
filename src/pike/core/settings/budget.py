"""Budgets and what was spent of them.

Knows addition. Does not know prices (`llm`) or the purpose of a query (`engine`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; None means no limit of that kind.

    Attributes:
        queries: COA and EFA calls (ADR 0003 says what counts as one).
        usd: money.
        tokens: input plus output tokens; the limit to set where a price is unknown.
    """

    queries: int = 300
    usd: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What has been spent.

    Attributes:
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
