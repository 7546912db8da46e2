"""The SQLite file of a journal: its one table, its version and how it is opened.

Knows the file format; a change of the table or of a body's meaning raises `VERSION` and adds an
upgrade here. Does not know what the rows mean (`entries`).
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pike.core.errors import StoreError, UserError
from pike.store.blobs import sync_to_disk
from pike.store.boundary import reading, writing

FILE_NAME = "journal.sqlite"
VERSION = 1
_APPLICATION = 0x50494B45
"""`PIKE`, by which tools like file(1) recognise the file."""
_PAGE = 1000
"""Rows fetched at once. A reader holds no transaction between pages, so the log can be emptied."""
_BUSY_SECONDS = 30.0

Row = tuple[int, float, str, str]
"""seq, Unix seconds, kind, packed JSON body."""


def connect_to_write(folder: Path) -> sqlite3.Connection:
    """A connection whose commits survive a power cut (write-ahead log, synced at every commit).

    Raises:
        StoreError: the file cannot be opened, or its disk cannot hold a write-ahead log.
        UserError: the file is of another version, or no journal at all.
    """
    with writing(folder):
        connection = _connect(folder, "mode=rwc")
        try:
            check_version(connection, folder)
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != "wal":
                raise StoreError(f"Run '{folder}' cannot be kept there (no write-ahead log): choose a local disk")
            sync_commits(connection, True)
        except BaseException:
            connection.close()
            raise
        return connection


def sync_commits(connection: sqlite3.Connection, durable: bool) -> None:
    """Choose whether commits from now on are synced; a sync also makes all earlier ones durable."""
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")


def sync_log(folder: Path) -> None:
    """Make every commit so far durable, as a synced commit would."""
    with suppress(FileNotFoundError):
        sync_to_disk(folder / f"{FILE_NAME}-wal")


def connect_to_read(folder: Path) -> sqlite3.Connection:
    """A connection that changes nothing and needs no lock, beside a writer or on a finished run.

    Raises:
        StoreError: the file cannot be read.
        UserError: there is none, it is of another version, or no journal at all.
    """
    must_exist(folder)
    try:
        return _reader(folder, "mode=rw")
    except StoreError:
        # On a read-only disk the log's shared index cannot be made; without a log none is needed.
        if (folder / f"{FILE_NAME}-wal").exists():
            raise
        return _reader(folder, "mode=ro&immutable=1")


def must_exist(folder: Path) -> None:
    """Refuse a folder without a journal.

    Raises:
        UserError: naming the folder.
    """
    if not (folder / FILE_NAME).is_file():
        raise UserError(f"There is no run in '{folder}': give a folder that contains {FILE_NAME}")


def create_tables(connection: sqlite3.Connection) -> None:
    """Turn an empty file into a journal, in one transaction; leaves a journal as it is."""
    connection.executescript(
        f"""
        BEGIN IMMEDIATE;
        CREATE TABLE IF NOT EXISTS events (
            seq INTEGER PRIMARY KEY, at_seconds REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
        );
        PRAGMA application_id={_APPLICATION};
        PRAGMA user_version={VERSION};
        COMMIT;
        """
    )


def check_version(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuse what this program cannot continue; an empty file (a crash while creating it) passes.

    Raises:
        UserError: naming the version found and the cure.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables == 0:
        return
    if application != _APPLICATION:
        raise UserError(f"'{folder / FILE_NAME}' is not a PIKE journal: give the folder of a run")
    if version != VERSION:
        raise UserError(
            f"Run '{folder}' has journal version {version}, and this PIKE reads version {VERSION}: "
            f"use the {'newer' if version > VERSION else 'older'} PIKE that wrote it"
        )


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the last entry, 0 where there is none."""
    if not _has_events(connection):
        return 0
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    return int(last)


def rows_at(connection: sqlite3.Connection, seqs: Sequence[int]) -> list[Row]:
    """The rows with these numbers, as far as there are any, in order."""
    if not _has_events(connection):
        return []
    query = "SELECT seq, at_seconds, kind, body FROM events WHERE seq=?"
    return [row for seq in seqs for row in connection.execute(query, (seq,)).fetchall()]


def rows(folder: Path, connection: sqlite3.Connection, after: int = 0) -> Iterator[Row]:
    """Every row after `after`, page by page; rows written meanwhile are included."""
    query = "SELECT seq, at_seconds, kind, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
    while True:
        with reading(folder):
            page = connection.execute(query, (after, _PAGE)).fetchall() if _has_events(connection) else []
        if not page:
            return
        yield from page
        after = page[-1][0]


def _has_events(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name='events'").fetchone())


def _reader(folder: Path, how: str) -> sqlite3.Connection:
    with reading(folder):
        connection = _connect(folder, how)
        try:
            connection.execute("PRAGMA query_only=1")
            check_version(connection, folder)
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(folder: Path, how: str) -> sqlite3.Connection:
    path = (folder / FILE_NAME).absolute().as_uri()
    return sqlite3.connect(
        f"{path}?{how}", uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
    )
