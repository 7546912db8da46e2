"""The memory of one run: events in order, each append durable before it returns.

Knows how events become rows and blobs, and that one process writes. Does not know what the events mean or when they
are written (`engine`).
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pike.core.errors import StoreError, UserError
from pike.core.events import Entry, Event, event_from_json, event_to_json
from pike.store import schema
from pike.store.blobs import INLINE_CHARACTERS, REFERENCE, Blobs, pack, sync_folder, unpack
from pike.store.boundary import reading, writing
from pike.store.lock import RunLock

BLOBS_NAME = "blobs"
Clock = Callable[[], float]


Texts = Collection[type[Any]]
"""Classes of events."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """How rows become entries: whose they are, where their texts are, and which kinds come without."""

    folder: Path
    blobs: Blobs
    without_texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Packed:
    """Events on their way into a journal.

    Attributes:
        events: what happened.
        bodies: kind and JSON text of each.
        texts: the long strings that the bodies refer to, by digest.
    """

    events: tuple[Event, ...]
    bodies: tuple[tuple[str, str], ...]
    texts: dict[str, bytes]


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
        self._synced = True
        self._last = 0

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

    def append(self, *events: Event, durable: bool = True) -> tuple[Entry, ...]:
        """Write events as one transaction: after a crash or power cut all of them are there, or none.

        Args:
            events: what happened.
            durable: survive a power cut from now on; else only the end of this process, until the next durable append
                or `flush` makes everything before it durable too.

        Raises:
            StoreError: the disk refused, now or at an earlier append; none of the events counts as written.
        """
        if not events:
            return ()
        # What may be lost keeps its texts in its rows, so that no row can outlive a text that it refers to.
        packed = pack_events(events, INLINE_CHARACTERS if durable else math.inf)
        self.keep_texts(packed)
        return self.commit(packed, durable)

    def keep_texts(self, packed: Packed) -> None:
        """Make the texts of packed events durable, before their rows are written.

        Raises:
            StoreError: the disk refused; the journal accepts nothing more.
        """
        if packed.texts:
            with self._failing():
                self._blobs.put(packed.texts)

    def commit(self, packed: Packed, durable: bool = False) -> tuple[Entry, ...]:
        """Write packed events, whose texts are durable, as one transaction; see `append`.

        Raises:
            StoreError: the disk refused, now or at an earlier append; none of the events counts as written.
        """
        with self._mutex, self._failing():
            first, at_seconds = self._insert(packed.bodies, durable)
        return tuple(Entry(first + index, at_seconds, event) for index, event in enumerate(packed.events))

    def flush(self) -> None:
        """Make everything that was committed so far durable; other threads may go on committing meanwhile.

        Raises:
            StoreError: the disk refused; the journal accepts nothing more.
        """
        with self._failing():
            schema.sync_log(self._folder)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Accept nothing after a failure: a journal never has a hole."""
        if self._closed or self._failure:
            raise StoreError(self._failure or f"The journal of run '{self._folder}' is closed")
        try:
            with writing(self._folder):
                yield
        except StoreError as error:
            self._failure = self._failure or str(error)
            raise

    def entries(self, without_texts: Texts = ()) -> Iterator[Entry]:
        """Every entry from the first, read page by page.

        Args:
            without_texts: events whose long texts are not read, because nobody will look at them; they are empty.

        Raises:
            StoreError: a row or a blob is missing, damaged or not understood.
        """
        seq = 0
        reader = _Reader(self._folder, self._blobs, frozenset(kind.__name__ for kind in without_texts))
        while True:
            with self._mutex, reading(self._folder):
                if self._closed:
                    raise StoreError(f"The journal of run '{self._folder}' is closed")
                page = schema.page_after(self._connection, seq)
            if not page:
                return
            yield from (_entry(row, reader) for row in page)
            seq = page[-1][0]

    def last(self) -> Entry:
        """The entry written last, without a look at the others.

        Raises:
            StoreError: there is none, or it is damaged or not understood.
        """
        with self._mutex, reading(self._folder):
            page = schema.page_after(self._connection, schema.last_seq(self._connection) - 1)
        if not page:
            raise StoreError(f"The journal of run '{self._folder}' holds nothing")
        return _entry(page[-1], _Reader(self._folder, self._blobs, frozenset()))

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


def read(folder: Path, after: int = 0, without_texts: Texts = ()) -> Iterator[Entry]:
    """The entries of a run, without a lock: beside its writer, or of a finished or crashed run.

    Args:
        folder: the run folder.
        after: skip entries up to this number (to follow a run that goes on).
        without_texts: as for `Journal.entries`.

    Returns:
        An iterator that reads page by page and ends with what was written when it gets there.

    Raises:
        UserError: there is no run, or another version wrote it.
        StoreError: the file, a row or a blob is missing, damaged or not understood.
    """
    reader = _Reader(folder, Blobs(folder / BLOBS_NAME), frozenset(kind.__name__ for kind in without_texts))
    return _entries(reader, schema.connect_to_read(folder), after)


def _entries(reader: _Reader, connection: sqlite3.Connection, after: int) -> Iterator[Entry]:
    try:
        for row in schema.rows(reader.folder, connection, after):
            yield _entry(row, reader)
    finally:
        connection.close()


def pack_events(events: Sequence[Event], longest: float = INLINE_CHARACTERS) -> Packed:
    """Events as they will be written, strings above `longest` characters apart."""
    texts: dict[str, bytes] = {}
    bodies = []
    for event in events:
        kind, body = event_to_json(event)
        text = _json(body)
        # A body that is short as a whole has no long string; most are.
        if len(text) > longest or REFERENCE in text:
            text = _json(pack(body, texts, longest))
        bodies.append((kind, text))
    return Packed(tuple(events), tuple(bodies), texts)


def _json(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), allow_nan=False)


def _nothing(_digest: str) -> str:
    return ""


def _entry(row: schema.Row, reader: _Reader) -> Entry:
    seq, at_seconds, kind, text = row
    try:
        body: Any = json.loads(text)
        if REFERENCE in text:
            body = unpack(body, _nothing if kind in reader.without_texts else reader.blobs.get)
        return Entry(seq, at_seconds, event_from_json(kind, body))
    except ValueError as error:
        raise StoreError(
            f"Entry {seq} of run '{reader.folder}' is not understood ({error}): it is damaged, or another PIKE wrote it"
        ) from error
