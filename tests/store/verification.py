"""Whether everything that a journal refers to is there.

Knows rows and blobs. Does not change anything; blobs without a row are the harmless trace of a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.errors import StoreError
from pike.store import schema
from pike.store.blobs import BLOBS_NAME, REFERENCE, Blobs


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of a run folder found.

    Attributes:
        entries: how many entries there are.
        gaps: entry numbers that are missing before the last one, at most the first hundred.
        missing: digests of blobs that are referred to and have no file.
        damaged: digests of blobs whose content does not match.
        orphans: digests of blobs that nothing refers to; harmless.
    """

    entries: int
    gaps: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether every entry can be read."""
        return not (self.gaps or self.missing or self.damaged)


def verify(folder: Path) -> Verification:
    """Check the journal in `folder`, without a lock; what is written meanwhile may show as an orphan.

    Raises:
        UserError: there is no run, or another version wrote it.
        StoreError: the journal file itself cannot be read.
    """
    blobs = Blobs(folder / BLOBS_NAME)
    found = {path.name for path in (folder / BLOBS_NAME).glob("??/*")}
    used: set[str] = set()
    gaps: list[int] = []
    count = last = 0
    connection = schema.connect_to_read(folder)
    try:
        for seq, _, _, body in schema.rows(folder, connection):
            used.update(references(json.loads(body)))
            gaps.extend(range(last + 1, min(seq, last + 101)))
            count, last = count + 1, seq
    finally:
        connection.close()
    missing = {digest for digest in used if not blobs.path(digest).is_file()}
    return Verification(
        entries=count,
        gaps=tuple(gaps[:100]),
        missing=tuple(sorted(missing)),
        damaged=_damaged(blobs, used - missing),
        orphans=tuple(sorted(found - used)),
    )


def _damaged(blobs: Blobs, digests: Iterable[str]) -> tuple[str, ...]:
    found = []
    for digest in sorted(digests):
        try:
            blobs.get(digest)
        except StoreError:
            found.append(digest)
    return tuple(found)


def references(value: Any) -> Iterator[str]:
    """The digests that a packed JSON value refers to."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if REFERENCE in value:
            yield value[REFERENCE]
        else:
            for item in value.values():
                yield from references(item)
