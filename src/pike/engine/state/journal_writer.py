"""The one way in which an event becomes part of a run: journal, then state, then observer.

Knows that order, and when an event is durable: steps that wait for a sync share one (ADR 0009).
Does not know what events mean.
"""

import asyncio
from typing import Protocol

from pike.core.events import Event, JournalEntry
from pike.engine.state.progress import Observer, ProgressBoard
from pike.engine.state.run_state import RunState
from pike.store.entries import Packed, pack_events


class Log(Protocol):
    """The part of `store.Journal` that a writer needs."""

    def append(self, *events: Event, durable: bool = True) -> tuple[JournalEntry, ...]:
        """Write events in one transaction, all or none, by default durably."""

    def keep_texts(self, packed: Packed) -> None:
        """Make texts durable before their events are committed; from any thread."""

    def commit(self, packed: Packed) -> tuple[JournalEntry, ...]:
        """Write such events in one transaction that a `flush` makes durable."""

    def flush(self) -> None:
        """Make every commit so far durable; from any thread."""


class JournalWriter:
    """Records events of one run."""

    def __init__(self, log: Log, state: RunState, observer: Observer | None = None) -> None:
        self._log = log
        self.state = state
        self.board = ProgressBoard(state, observer)
        self._written = 0
        self._durable = 0
        self._flushing: asyncio.Task[None] | None = None
        self._keeping: set[asyncio.Task[None]] = set()

    def record(self, *events: Event) -> None:
        """Write events in one durable transaction, then update state and observer."""
        self._log.append(*events)
        self._apply(*events)

    def decide(self, *events: Event) -> None:
        """As `record`, without waiting: for events that would happen again after a power cut."""
        self._log.append(*events, durable=False)
        self._apply(*events)

    async def keep(self, *events: Event) -> None:
        """As `record`, and returns when the events are durable, also if the caller is cancelled."""
        task = asyncio.create_task(self._keep(*events))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
        await asyncio.shield(task)

    def flush_soon(self) -> None:
        """Begin a sync without waiting; if it fails, the journal refuses the next event."""
        self._flush().add_done_callback(_seen)

    async def drain(self) -> None:
        """Wait for all writes that are under way."""
        while self._keeping or self._flushing:
            await asyncio.gather(*self._keeping, *filter(None, [self._flushing]), return_exceptions=True)

    async def _keep(self, *events: Event) -> None:
        packed = pack_events(events)
        if packed.texts:
            await asyncio.to_thread(self._log.keep_texts, packed)
        self._log.commit(packed)
        self._apply(*events)
        mine = self._written
        while self._durable < mine:
            await asyncio.shield(self._flush())

    def _flush(self) -> asyncio.Task[None]:
        """The sync that is under way, which may have begun too early to cover the newest event."""
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

    def _apply(self, *events: Event) -> None:
        self._written += 1
        for event in events:
            self.state.apply(event)
        for event in events:
            self.board.happened(event)


def _seen(task: asyncio.Task[None]) -> None:
    """Retrieve a failure, so that asyncio does not warn; the journal refuses the next event."""
    if not task.cancelled():
        task.exception()
