"""When failures in a row mean that the outside world is down.

Knows only how many there were. Does not know what failed, or what stopping means.
"""

PATIENCE = 4
"""Failures in a row, of providers or of judges, after which a run stops and can be resumed.

Every failed step costs a query, so an outage would eat the whole budget.
"""


class Outage:
    """Counts failures in a row of one kind.

    Args:
        patience: how many end the run; 0 for none.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patience = patience
        self._failures = 0

    def failed(self) -> bool:
        """Count a failure; True if that was one too many."""
        self._failures += 1
        return 0 < self._patience <= self._failures

    def worked(self) -> None:
        """Start counting anew."""
        self._failures = 0
