"""A value computed from a journal, kept beside it so that it need not be computed again.

Knows when such a value still holds: the journal, which is only ever appended to, has not grown
(ADR 0009). Does not know what the value means. A checkpoint that is missing, stale, damaged or of
another version counts as none.
"""

import hashlib
import json
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.errors import StoreError
from pike.store import schema
from pike.store.boundary import reading
from pike.store.whole import write_text

SPREAD = 16
"""How many entries the digest covers beside the first and the last."""


@dataclass(frozen=True, slots=True)
class JournalMark:
    """A journal as it was when something was computed from it.

    Attributes:
        seq: the number of its last entry.
        proof: a digest over entries spread over it.
    """

    seq: int
    proof: str


def mark_of(folder: Path) -> JournalMark:
    """The mark of the journal in `folder` now."""
    with closing(schema.connect_to_read(folder)) as connection, reading(folder):
        last = schema.last_seq(connection)
        places = sorted({1, last, *(last * part // SPREAD for part in range(1, SPREAD))})
        digest = hashlib.sha256()
        for row in schema.rows_at(connection, places):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return JournalMark(last, digest.hexdigest())


def read(folder: Path, name: str, version: str, mark: JournalMark) -> Any:
    """The value that `version` kept under `name` for the journal of this mark, else None."""
    try:
        text = _path(folder, name).read_text(encoding="utf-8")
        head, _, body = text.partition("\n")
        if json.loads(head) != _head(version, mark, body):
            return None
        return json.loads(body)
    except (OSError, ValueError):
        return None


def write(folder: Path, name: str, version: str, mark: JournalMark, value: Any) -> None:
    """Keep a JSON value computed from the journal up to `mark`; a failing disk costs only time."""
    body = json.dumps(value, separators=(",", ":"))
    with suppress(StoreError):
        write_text(_path(folder, name), f"{json.dumps(_head(version, mark, body))}\n{body}")


def _head(version: str, mark: JournalMark, body: str) -> dict[str, Any]:
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return {"version": version, "seq": mark.seq, "proof": mark.proof, "digest": digest}


def _path(folder: Path, name: str) -> Path:
    return folder / f"checkpoint-{name}"
