"""The wall between a run and the outside world: one place that says what a failure out there means in here.

Knows the error tree and the signals of the ledger. Does not retry (that was done before) and records nothing.
Bugs pass through untouched.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum

from pike.core.agent import Proposal
from pike.core.errors import ProviderError
from pike.engine.ledger import OutOfBudget

PATIENCE = 4
"""Failures in a row, of providers or of judges, after which the run stops and can be resumed: every failed step
costs a query of the budget, and an outage would eat it whole."""


class Wall(Enum):
    """Which wall a failure crossed."""

    PROVIDER = "provider"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A failure of the outside world: which wall, and one sentence (for a budget, the reason to stop)."""

    wall: Wall
    reason: str


async def boundary(act: Awaitable[Proposal]) -> Proposal | Crossing:
    """Await an agent and classify what failed outside.

    A `UserError` (the key was revoked), a `StoreError` (the disk is full) and bugs pass: they end the process's part
    of the run, and the step stays open for a resume.
    """
    try:
        return await act
    except ProviderError as error:
        return Crossing(Wall.PROVIDER, str(error))
    except OutOfBudget as signal:
        return Crossing(Wall.BUDGET, signal.reason)


class Outage:
    """Counts failures in a row of one kind.

    Args:
        patience: how many are borne; 0 bears any number.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._failures = 0

    def failed(self) -> bool:
        """Count a failure; True if that was one too many."""
        self._failures += 1
        return 0 < self._patience <= self._failures

    def worked(self) -> None:
        """The outside world answered."""
        self._failures = 0
