"""When samples begin: in rounds, or steadily as others end.

Knows the two kinds and their dials. Does not know what a sample starts from (`selection`).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from pike.core.errors import UserError
from pike.search.options.ranges import Choice, at_least

_WHERE = "strategy.pacing"


class BudgetCheck(Choice):
    """When the query budget is checked."""

    QUERY = "query"
    """Before every query; the budget is never exceeded."""
    ROUND = "round"
    """Published: before a whole round, whose first queries are then all asked. A run of N queries
    can end at N - 1 + `samples` (309 for 300). Repairs are still checked one by one."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Begin all samples of a round together, and wait for them before the next round.

    Attributes:
        samples: samples of a round.
        quorum: the part of a round's samples to wait for. Published: 1, so that decisions do not
            depend on how long an evaluation takes. Below 1, late samples join the next round.
        budget_check: when the query budget is checked. The published value spends more than the
            user allowed, so it is not the default.
    """

    kind: ClassVar[str] = "rounds"

    samples: int = 10
    quorum: float = 1.0
    budget_check: BudgetCheck = BudgetCheck.QUERY

    def __post_init__(self) -> None:
        at_least(_WHERE, self, samples=1)
        if not 0.0 < self.quorum <= 1.0:
            raise UserError(f"Setting '{_WHERE}.quorum' must be above 0 and at most 1, not {self.quorum}")

    def to_wait_for(self, begun: int) -> int:
        """The number of samples, of `begun` ones, that must close before the next round."""
        return max(1, math.ceil(self.quorum * begun - 1e-9))


@dataclass(frozen=True, slots=True)
class Steady:
    """Begin a sample whenever fewer than `in_flight` are open.

    Attributes:
        in_flight: samples that are open at once.
        first_attempts: samples that start where the selection's `seeding` says, as those of a first
            round do; only for selections `top-k` and `weighted`.
    """

    kind: ClassVar[str] = "steady"

    in_flight: int = 20
    first_attempts: int = 0

    def __post_init__(self) -> None:
        at_least(_WHERE, self, in_flight=1, first_attempts=0)
