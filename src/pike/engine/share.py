"""What a run that is part of a campaign takes from it, as a protocol.

Knows what `engine.run` asks for. Does not know campaigns: a run that stands alone has none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from pike.engine.ledger import Purse
from pike.engine.memory import Memory
from pike.engine.replay import Pace


class Share(Protocol):
    """One run's part of a campaign, for as long as the run is open."""

    @property
    def purse(self) -> Purse:
        """The money that all runs spend from."""
        ...

    def opened(self, memory: Memory) -> None:
        """Take note of the run's state, which is kept up to date while the run is open."""
        ...

    def pace(self, pace: Pace) -> Pace:
        """When the run may ask, given when it might ask alone."""
        ...

    def stops(self, first: Callable[[], None], again: Callable[[], None]) -> AbstractContextManager[None]:
        """Who may ask the run to stop: calls `first` to stop cleanly, `again` to stop at once."""
        ...
