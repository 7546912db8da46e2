"""Failures of the disk and of SQLite, turned into one clear sentence.

Knows which failures come from outside. Does not know what was being written. Wrong use of SQLite
is a bug and passes through.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pike.core.errors import StoreError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_PRIMARY_CODE = 0xFF
"""The bits of an SQLite result code that extended codes refine."""
_BUGS = (sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.IntegrityError, sqlite3.NotSupportedError)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Failures inside become a `StoreError` about writing the run in `folder`."""
    try:
        yield
    except OSError as error:
        raise StoreError(_cannot_write(folder, error.errno in _FULL, str(error.strerror or error))) from error
    except _BUGS:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        said = _cannot_write(folder, code == sqlite3.SQLITE_FULL, str(error))
        raise StoreError(_cannot_read(folder, error) if code in _DAMAGED else said) from error


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Failures inside become a `StoreError` about reading the run in `folder`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"Run '{folder}' cannot be read: {error.strerror or error}") from error
    except _BUGS:
        raise
    except sqlite3.Error as error:
        raise StoreError(_cannot_read(folder, error)) from error


def _cannot_read(folder: Path, error: sqlite3.Error) -> str:
    damaged = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _DAMAGED
    cure = "; it is damaged: put a copy of it back, or start the run again in another folder" if damaged else ""
    return f"The journal of run '{folder}' cannot be read: {error}{cure}"


def _cannot_write(folder: Path, full: bool, what: str) -> str:
    """What is wrong and how to mend the disk; the caller adds how to continue."""
    if full:
        return f"The disk that holds '{folder}' is full ({what}): free some space"
    return f"The folder '{folder}' cannot be written: {what}"
