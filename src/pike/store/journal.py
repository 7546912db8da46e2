"""The memory of one run: events in order, each append durable before it returns.

Knows how events become rows and blobs, and that one process writes. Does not know what the events mean or when they
are written (`engine`).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pike.core.errors import StoreError, UserError
from pike.core.events import Entry, Event, event_from_json, event_to_json
from pike.store import schema
from pike.store.blobs import Blobs, pack, sync_folder, unpack
from pike.store.boundary import reading, writing
from pike.store.lock import RunLock

BLOBS_NAME = "blobs"
Clock = Callable[[], float]


class Journal:
    """The append-only journal in a run folder, held by one process.

    Methods may be called from any thread. After a failed append nothing more is accepted: a journal never has a hole,
    and whatever was written before stays good for `open`.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: RunLock, clock: Clock) -> None:
        """Use `create` or `open`."""
        self._folder = folder
        self._connection = connection
        self._lock = lock
        self._clock = clock
        self._blobs = Blobs(folder / BLOBS_NAME)
        self._mutex = threading.Lock()
        self._closed = False
        self._failure = ""

    @classmethod
    def create(cls, folder: Path, clock: Clock = time.time) -> Journal:
        """Begin a journal in `folder`, which is made if needed; one without any entry is taken over.

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
        journal = cls._locked(folder, clock)
        try:
            journal._begin()
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def open(cls, folder: Path, clock: Clock = time.time) -> Journal:
        """Continue the journal in `folder`; takes no longer for a long one.

        Raises:
            UserError: there is no run, another process holds it, or another version wrote it.
            StoreError: the disk refused or the file is damaged.
        """
        schema.must_exist(folder)
        journal = cls._locked(folder, clock)
        try:
            journal._continue()
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def _locked(cls, folder: Path, clock: Clock) -> Journal:
        lock = RunLock(folder, clock())
        try:
            connection = schema.connect_to_write(folder)
        except BaseException:
            lock.release()
            raise
        return cls(folder, connection, lock, clock)

    def _begin(self) -> None:
        with writing(self._folder):
            if schema.last_seq(self._connection):
                raise UserError(
                    f"'{self._folder}' already holds a run: continue it with 'pike resume {self._folder}', "
                    "or choose another folder"
                )
            schema.create_tables(self._connection)
            sync_folder(self._folder)
            sync_folder(self._folder.absolute().parent)

    def _continue(self) -> None:
        with reading(self._folder):
            if not schema.last_seq(self._connection):
                raise UserError(f"The run in '{self._folder}' never began: start it again")

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._folder

    def append(self, *events: Event) -> tuple[Entry, ...]:
        """Write events as one transaction: after a crash or power cut all of them are there, or none.

        Raises:
            StoreError: the disk refused, now or at an earlier append; none of the events counts as written.
        """
        if not events:
            return ()
        contents: dict[str, bytes] = {}
        bodies = [_written(event, contents) for event in events]
        with self._mutex:
            if self._closed or self._failure:
                raise StoreError(self._failure or f"The journal of run '{self._folder}' is closed")
            try:
                with writing(self._folder):
                    self._blobs.put(contents)
                    first, at_seconds = self._insert(bodies)
            except StoreError as error:
                self._failure = str(error)
                raise
        return tuple(Entry(first + index, at_seconds, event) for index, event in enumerate(events))

    def entries(self) -> Iterator[Entry]:
        """Every entry from the first, read page by page.

        Raises:
            StoreError: a row or a blob is missing, damaged or not understood.
        """
        seq = 0
        while True:
            with self._mutex, reading(self._folder):
                if self._closed:
                    raise StoreError(f"The journal of run '{self._folder}' is closed")
                page = schema.page_after(self._connection, seq)
            if not page:
                return
            yield from (_entry(row, self._blobs, self._folder) for row in page)
            seq = page[-1][0]

    def close(self) -> None:
        """Let go of the run; closing twice does nothing."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            try:
                with writing(self._folder):
                    self._connection.close()
            finally:
                self._lock.release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _insert(self, bodies: Sequence[tuple[str, str]]) -> tuple[int, float]:
        """Commit rows; returns the number of the first and their time."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            first, at_seconds = schema.last_seq(connection) + 1, self._clock()
            connection.executemany(
                "INSERT INTO events (seq, at_seconds, kind, body) VALUES (?, ?, ?, ?)",
                [(first + index, at_seconds, kind, body) for index, (kind, body) in enumerate(bodies)],
            )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return first, at_seconds


def read(folder: Path, after: int = 0) -> Iterator[Entry]:
    """The entries of a run, without a lock: beside its writer, or of a finished or crashed run.

    Args:
        folder: the run folder.
        after: skip entries up to this number (to follow a run that goes on).

    Returns:
        An iterator that reads page by page and ends with what was written when it gets there.

    Raises:
        UserError: there is no run, or another version wrote it.
        StoreError: the file, a row or a blob is missing, damaged or not understood.
    """
    return _entries(folder, schema.connect_to_read(folder), after)


def _entries(folder: Path, connection: sqlite3.Connection, after: int) -> Iterator[Entry]:
    blobs = Blobs(folder / BLOBS_NAME)
    try:
        for row in schema.rows(folder, connection, after):
            yield _entry(row, blobs, folder)
    finally:
        connection.close()


def _written(event: Event, contents: dict[str, bytes]) -> tuple[str, str]:
    """Kind and JSON text of an event, its long strings put into `contents`."""
    kind, body = event_to_json(event)
    return kind, json.dumps(pack(body, contents), separators=(",", ":"), allow_nan=False)


def _entry(row: schema.Row, blobs: Blobs, folder: Path) -> Entry:
    seq, at_seconds, kind, text = row
    try:
        body: Any = json.loads(text)
        return Entry(seq, at_seconds, event_from_json(kind, unpack(body, blobs.get)))
    except ValueError as error:
        raise StoreError(
            f"Entry {seq} of run '{folder}' is not understood ({error}): it is damaged, or another PIKE wrote it"
        ) from error
