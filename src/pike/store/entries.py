"""How events become rows and blobs, and rows become entries again.

Knows the packed form of an event. Does not know the writer (`journal`) or the SQLite file
(`schema`).
"""

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.errors import StoreError
from pike.core.events import Event, JournalEntry, event_from_json, event_to_json
from pike.store import schema
from pike.store.blobs import BLOBS_NAME, INLINE_CHARACTERS, REFERENCE, Blobs, pack, unpack

Kinds = Collection[type[Any]]
"""Classes of events."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Events on their way into a journal.

    Attributes:
        bodies: kind and JSON text of each.
        texts: the long strings that the bodies refer to, by digest.
    """

    events: tuple[Event, ...]
    bodies: tuple[tuple[str, str], ...]
    texts: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Reader:
    """How rows become entries: of which run, with which texts, and which kinds without them."""

    folder: Path
    blobs: Blobs
    without_texts: frozenset[str]


def read(folder: Path, after: int = 0, without_texts: Kinds = ()) -> Iterator[JournalEntry]:
    """The entries of a run, read without a lock, beside its writer or after it.

    Args:
        folder: the run folder.
        after: skip entries up to this number (to follow a run that goes on).
        without_texts: kinds of events whose long texts are left empty, to save reading them.

    Returns:
        An iterator that reads page by page, up to the last entry at that time.

    Raises:
        UserError: there is no run, or another version wrote it.
        StoreError: the file, a row or a blob is missing, damaged or not understood.
    """
    reader = _Reader(folder, Blobs(folder / BLOBS_NAME), frozenset(kind.__name__ for kind in without_texts))
    return _entries(reader, schema.connect_to_read(folder), after)


def _entries(reader: _Reader, connection: sqlite3.Connection, after: int) -> Iterator[JournalEntry]:
    with closing(connection):
        for row in schema.rows(reader.folder, connection, after):
            yield _entry(row, reader)


def pack_events(events: Sequence[Event], longest: float = INLINE_CHARACTERS) -> Packed:
    """Events in their written form; strings above `longest` characters go to blobs."""
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


def _entry(row: schema.Row, reader: _Reader) -> JournalEntry:
    seq, at_seconds, kind, text = row
    try:
        body: Any = json.loads(text)
        if REFERENCE in text:
            body = unpack(body, (lambda _: "") if kind in reader.without_texts else reader.blobs.get)
        return JournalEntry(seq, at_seconds, event_from_json(kind, body))
    except ValueError as error:
        raise StoreError(
            f"Entry {seq} of run '{reader.folder}' is not understood ({error}): it is damaged, or another PIKE wrote it"
        ) from error
