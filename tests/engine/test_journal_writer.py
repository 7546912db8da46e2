"""When an event is durable, and how many syncs that takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from pike.core.errors import StoreError
from pike.core.events import Event, JournalEntry, Resumed, Stopped
from pike.engine.state.journal_writer import JournalWriter
from pike.engine.state.run_state import RunState
from pike.store.entries import Packed


class SlowDisk:
    """A log whose syncs wait until they are let go, and that knows what each covered."""

    def __init__(self) -> None:
        self.written: list[Event] = []
        self.covered: list[int] = []
        self.free = threading.Semaphore(0)
        self.full = False

    def append(self, *events: Event, durable: bool = True) -> tuple[JournalEntry, ...]:
        return self._write(events)

    def keep_texts(self, packed: Packed) -> None:
        pass

    def commit(self, packed: Packed) -> tuple[JournalEntry, ...]:
        return self._write(packed.events)

    def flush(self) -> None:
        count = len(self.written)
        self.free.acquire()
        if self.full:
            raise StoreError("The disk is full")
        self.covered.append(count)

    def _write(self, events: Sequence[Event]) -> tuple[JournalEntry, ...]:
        self.written.extend(events)
        return tuple(JournalEntry(1, 0.0, event) for event in events)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0.002)


async def test_what_is_kept_is_durable_and_steps_share_a_sync() -> None:
    disk = SlowDisk()
    writer = JournalWriter(disk, RunState())
    first = asyncio.create_task(writer.keep(Stopped("one")))
    await settled()
    later = [asyncio.create_task(writer.keep(Stopped(f"later {number}"))) for number in range(5)]
    await settled()
    assert len(disk.written) == 6, "no write waits for the disk"
    assert not first.done()
    disk.free.release()
    await settled()
    assert first.done()
    assert not any(task.done() for task in later), "the sync began before them"
    disk.free.release()
    await asyncio.gather(*later)
    assert disk.covered == [1, 6]


async def test_a_cancelled_caller_does_not_take_back_what_was_kept() -> None:
    disk = SlowDisk()
    writer = JournalWriter(disk, RunState())
    keeping = asyncio.create_task(writer.keep(Resumed("0")))
    await asyncio.sleep(0)
    keeping.cancel()
    disk.free.release()
    await writer.drain()
    assert disk.covered == [1]


async def test_a_disk_that_refuses_is_noticed_by_all_that_wait() -> None:
    disk = SlowDisk()
    disk.full = True
    disk.free.release()
    writer = JournalWriter(disk, RunState())
    with pytest.raises(StoreError, match="full"):
        await writer.keep(Stopped("one"))
