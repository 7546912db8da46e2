"""How many requests a server of one's own gets at once, learnt from how soon its answers begin.

Knows waits: a server with one slot begins a second answer only after the first. Does not know what
is sent. Nothing is asked of the server, so this works with any.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pike.core.query import Query

FIRST = 2
"""Requests at once before anything is known: one of them shows whether it had to wait."""
SLOW = 3.0
"""An answer that begins after this many times the quickest wait was queued, if it is also..."""
GRACE_SECONDS = 0.5
"""...so much later: prompts differ in length."""
GOOD_TO_RISE = 10
"""Answers that begin soon, after one that did not, before one more request is tried."""


@dataclass(slots=True)
class Call:
    """One request that is under way.

    Attributes:
        sent: on the clock.
        crowded: all places were taken at a time since then, so its wait says how many there are.
        began: when its answer began to come, 0 while it waits.
        behind: seconds of its wait in which the server was busy with answers that have ended.
        query: what is asked.
    """

    sent: float
    crowded: bool = False
    began: float = 0.0
    behind: float = 0.0
    query: Query | None = None


class Slots:
    """Holds requests back that the server would only queue, where their silence would count.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = FIRST
        self._clock = clock
        self._calls: list[Call] = []
        self._quickest = float("inf")
        self._lowered = float("-inf")
        self._good = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def one(self, query: Query | None = None) -> AsyncIterator[Call]:
        """Wait for a place and hold it."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._calls) < self.limit)
            self._calls.append(call := Call(self._clock(), query=query))
        if len(self._calls) >= self.limit:
            for each in self._calls:
                each.crowded = True
        try:
            yield call
        finally:
            self._calls = [each for each in self._calls if each is not call]
            for each in self._calls:
                each.behind += self._clock() - max(call.began, each.sent) if call.began else 0.0
            async with self._changed:
                self._changed.notify_all()

    def holds(self, query: Query) -> bool:
        """Whether the call of a query has a place."""
        return any(call.query is query for call in self._calls)

    def begins(self, call: Call) -> None:
        """The answer begins to come."""
        waited = self._clock() - call.sent
        self._quickest = min(self._quickest, waited)
        # Where reading a prompt takes as long as an answer, the wait alone shows no queue.
        behind = not any(each.began for each in self._calls) and call.behind > max(self._quickest, GRACE_SECONDS)
        call.began = call.sent + waited
        if behind or waited > SLOW * self._quickest + GRACE_SECONDS:
            self.queued(call)
        elif call.crowded:
            self._rise()

    def queued(self, call: Call) -> None:
        """The call had to wait; several that waited together count once."""
        if call.sent > self._lowered:
            self.limit = max(1, self.limit // 2)
            self._lowered, self._good = self._clock(), 0

    def _rise(self) -> None:
        self._good += 1
        never_lowered = self._lowered == float("-inf")
        if self._good >= (self.limit if never_lowered else GOOD_TO_RISE):  # one may have been first
            self.limit, self._good = self.limit + (self.limit if never_lowered else 1), 0
