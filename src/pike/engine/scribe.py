"""The one way in which anything becomes part of a run: journal first, then memory, then whoever watches.

Knows that order, and when an event is durable. Does not know what events mean.

A journal is a prefix of what happened, so one sync makes everything before it durable. Steps that wait for a sync at
the same time therefore share one (group commit), and it is waited for in a thread, so that other steps and other runs
go on.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from pike.core.events import Entry, Event
from pike.engine.memory import Memory
from pike.engine.progress import Board, Observer
from pike.store.journal import Packed, pack_events


class Log(Protocol):
    """What is needed of `store.Journal`."""

    def append(self, *events: Event, durable: bool = True) -> tuple[Entry, ...]:
        """Write events in one transaction, all or none, by default durably."""
        ...

    def keep_texts(self, packed: Packed) -> None:
        """Make the texts of events durable that will be committed; from any thread."""
        ...

    def commit(self, packed: Packed) -> tuple[Entry, ...]:
        """Write such events in one transaction that a `flush` makes durable."""
        ...

    def flush(self) -> None:
        """Make everything that was committed durable; from any thread."""
        ...


class Scribe:
    """Records events of one run.

    Args:
        log: the journal; what it refuses never happened.
        memory: the run's state so far.
        observer: who watches, None for nobody.
    """

    def __init__(self, log: Log, memory: Memory, observer: Observer | None = None) -> None:
        self._log = log
        self.memory = memory
        self.board = Board(memory, observer)
        self._written = 0
        self._durable = 0
        self._flushing: asyncio.Task[None] | None = None
        self._keeping: set[asyncio.Task[None]] = set()

    def record(self, *events: Event) -> None:
        """Write events in one durable transaction, then let memory and observer know.

        Raises:
            StoreError: they could not be written; memory is as before.
        """
        self._log.append(*events)
        self._took_place(*events)

    def decide(self, *events: Event) -> None:
        """As `record`, for what would come about again if a power cut took it: durable soon, and not waited for."""
        self._log.append(*events, durable=False)
        self._took_place(*events)

    async def keep(self, *events: Event) -> None:
        """As `record`, and returns when the events are durable; a caller that is cancelled does not take them back.

        Raises:
            StoreError: they could not be written, or may not survive a power cut.
        """
        task = asyncio.create_task(self._keep(*events))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
        await asyncio.shield(task)

    def flush_soon(self) -> None:
        """Have everything so far made durable without waiting; where that fails, the next event is refused."""
        self._flush().add_done_callback(_seen)

    async def settle(self) -> None:
        """Wait for everything that is on its way to the disk."""
        while self._keeping or self._flushing:
            await asyncio.gather(*self._keeping, *filter(None, [self._flushing]), return_exceptions=True)

    async def _keep(self, *events: Event) -> None:
        packed = pack_events(events)
        if packed.texts:
            await asyncio.to_thread(self._log.keep_texts, packed)
        self._log.commit(packed)
        self._took_place(*events)
        mine = self._written
        while self._durable < mine:
            await asyncio.shield(self._flush())

    def _flush(self) -> asyncio.Task[None]:
        """The sync that is under way; one that began before an event does not cover it."""
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._synced())
        return self._flushing

    async def _synced(self) -> None:
        reached = self._written
        try:
            await asyncio.to_thread(self._log.flush)
            self._durable = max(self._durable, reached)
        finally:
            self._flushing = None

    def _took_place(self, *events: Event) -> None:
        self._written += 1
        for event in events:
            self.memory.apply(event)
        for event in events:
            self.board.happened(event)


def _seen(task: asyncio.Task[None]) -> None:
    """Take note of a failure that nobody waits for; the journal itself refuses what comes next."""
    if not task.cancelled():
        task.exception()
