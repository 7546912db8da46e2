"""The one way in which anything becomes part of a run: journal first, then memory, then whoever watches.

Knows that order. Does not know what events mean.
"""

from __future__ import annotations

from typing import Protocol

from pike.core.events import Entry, Event
from pike.engine.memory import Memory
from pike.engine.progress import Board, Observer


class Log(Protocol):
    """What is needed of `store.Journal`."""

    def append(self, *events: Event) -> tuple[Entry, ...]:
        """Write events in one durable transaction, all or none."""
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

    def record(self, *events: Event) -> None:
        """Write events in one transaction, then let memory and observer know.

        Raises:
            StoreError: they could not be written; memory is as before.
        """
        self._log.append(*events)
        for event in events:
            self.memory.apply(event)
        for event in events:
            self.board.happened(event)
