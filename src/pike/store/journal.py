"""The journal of one run: events in order, each append durable before it returns.

Knows that one process writes and many read. Does not know the form of rows (`entries`, `schema`),
the meaning of events, or when they are written (`engine`).
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pike.core.errors import StoreError, UserError
from pike.core.events import Event, JournalEntry
from pike.store import schema
from pike.store.blobs import BLOBS_NAME, INLINE_CHARACTERS, Blobs, sync_to_disk
from pike.store.boundary import reading, writing
from pike.store.entries import Kinds, Packed, pack_events, read
from pike.store.lock import RunLock

Clock = Callable[[], float]


class Journal(AbstractContextManager["Journal"]):
    """The append-only journal in a run folder, held by one process.

    Any thread may call its methods. After a failed append it accepts nothing more: a journal never
    has a hole, and everything written before stays good for `open`.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: RunLock, clock: Clock) -> None:
        """Not public: use `create` or `open`."""
        self.folder = folder
        """The run folder."""
        self._connection = connection
        self._lock = lock
        self._clock = clock
        self._blobs = Blobs(folder / BLOBS_NAME)
        self._mutex = threading.Lock()
        self._closed = False
        self._failure = ""
        self._synced = True
        self._last = 0

    @classmethod
    def create(cls, folder: Path, clock: Clock = time.time) -> Journal:
        """Begin a journal in `folder`, which is made if needed, or take over an empty one.

        Raises:
            UserError: the folder holds a run already, is in use, or cannot be made.
            StoreError: the disk refused.
        """
        try:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
        except StoreError as error:
            if isinstance(error.__cause__, PermissionError | FileExistsError | NotADirectoryError):
                raise UserError(f"Cannot make the folder '{folder}': choose another one for the run") from error
            raise
        return cls._locked(folder, clock, cls._begin)

    @classmethod
    def open(cls, folder: Path, clock: Clock = time.time) -> Journal:
        """Continue the journal in `folder`, in a time that does not depend on its length.

        Raises:
            UserError: there is no run, another process holds it, or another version wrote it.
            StoreError: the disk refused or the file is damaged.
        """
        schema.must_exist(folder)
        return cls._locked(folder, clock, cls._continue)

    @classmethod
    def _locked(cls, folder: Path, clock: Clock, prepare: Callable[[Journal], None]) -> Journal:
        lock = RunLock(folder, clock())
        try:
            connection = schema.connect_to_write(folder)
        except BaseException:
            lock.close()
            raise
        journal = cls(folder, connection, lock, clock)
        try:
            prepare(journal)
        except BaseException:
            journal.close()
            raise
        return journal

    def _begin(self) -> None:
        with writing(self.folder):
            if schema.last_seq(self._connection):
                raise UserError(
                    f"'{self.folder}' already holds a run: continue it with 'pike resume {self.folder}', "
                    "or choose another folder"
                )
            schema.create_tables(self._connection)
            sync_to_disk(self.folder)
            sync_to_disk(self.folder.absolute().parent)

    def _continue(self) -> None:
        with reading(self.folder):
            if not schema.last_seq(self._connection):
                raise UserError(f"The run in '{self.folder}' never began: start it again")

    def append(self, *events: Event, durable: bool = True) -> tuple[JournalEntry, ...]:
        """Write events as one transaction: after a crash all of them are there, or none.

        Args:
            events: what happened.
            durable: whether they survive a power cut from now on. Otherwise they survive only the
                end of this process, until the next durable append or `flush`.
        """
        if not events:
            return ()
        # Rows that a power cut may take keep their texts inside, so that no row refers to a lost text.
        packed = pack_events(events, INLINE_CHARACTERS if durable else math.inf)
        self.keep_texts(packed)
        return self.commit(packed, durable)

    def keep_texts(self, packed: Packed) -> None:
        """Make the texts of packed events durable, before their rows are written."""
        if packed.texts:
            with self._failing():
                self._blobs.put(packed.texts)

    def commit(self, packed: Packed, durable: bool = False) -> tuple[JournalEntry, ...]:
        """Write packed events, whose texts are durable, as one transaction; see `append`."""
        with self._mutex, self._failing():
            first, at_seconds = self._insert(packed.bodies, durable)
        return tuple(JournalEntry(first + index, at_seconds, event) for index, event in enumerate(packed.events))

    def flush(self) -> None:
        """Make every commit so far durable; other threads may commit meanwhile."""
        with self._failing():
            schema.sync_log(self.folder)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Accept nothing after a failure: a journal never has a hole."""
        if self._closed or self._failure:
            raise StoreError(self._failure or f"The journal of run '{self.folder}' is closed")
        try:
            with writing(self.folder):
                yield
        except StoreError as error:
            self._failure = self._failure or str(error)
            raise

    def entries(self, without_texts: Kinds = ()) -> Iterator[JournalEntry]:
        """Every entry from the first, page by page; see `read`.

        Raises:
            StoreError: the journal is closed, or an entry is missing, damaged or not understood.
        """
        if self._closed:
            raise StoreError(f"The journal of run '{self.folder}' is closed")
        return read(self.folder, without_texts=without_texts)

    def last(self) -> JournalEntry:
        """The last entry, read without the others.

        Raises:
            StoreError: there is none, or it is damaged or not understood.
        """
        with self._mutex, reading(self.folder):
            after = schema.last_seq(self._connection) - 1
        for entry in read(self.folder, after):
            return entry
        raise StoreError(f"The journal of run '{self.folder}' holds nothing")

    def close(self) -> None:
        """Let go of the run; closing twice does nothing."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            try:
                with writing(self.folder):
                    self._connection.close()
            finally:
                self._lock.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _insert(self, bodies: Sequence[tuple[str, str]], durable: bool) -> tuple[int, float]:
        """Commit rows; returns the number of the first and their time."""
        connection = self._connection
        if durable != self._synced:
            schema.sync_commits(connection, durable)
            self._synced = durable
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Only the holder of the lock writes, so the number that was read once stays known.
            first, at_seconds = (self._last or schema.last_seq(connection)) + 1, self._clock()
            connection.executemany(
                "INSERT INTO events (seq, at_seconds, kind, body) VALUES (?, ?, ?, ?)",
                [(first + index, at_seconds, kind, body) for index, (kind, body) in enumerate(bodies)],
            )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._last = first + len(bodies) - 1
        return first, at_seconds
