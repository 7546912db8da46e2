"""The submissions of a service in one SQLite file: what waits, who asked, and every verdict.

Knows that an accepted submission and a stored verdict outlive the process. Does not know how
anything is judged, or who may ask. One process writes; it calls from one thread.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pike.core.codec import decode, encode
from pike.core.errors import UserError
from pike.engine.executors.service.wire import CANCELLED, DONE, FAILED, QUEUED, Problem, Submission, SubmissionState
from pike.engine.service.limits import Quota, Usage
from pike.store.boundary import writing

FILE_NAME = "submissions.sqlite"
VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL, asked TEXT NOT NULL, told TEXT,
    settled INTEGER NOT NULL DEFAULT 0, ended REAL);
CREATE INDEX IF NOT EXISTS waiting ON submissions (state) WHERE state = 'queued';
CREATE TABLE IF NOT EXISTS claims (
    id TEXT NOT NULL, owner TEXT NOT NULL, at REAL NOT NULL, open INTEGER NOT NULL, PRIMARY KEY (id, owner));
CREATE INDEX IF NOT EXISTS claimed ON claims (owner, at);
"""


class SubmissionQueue:
    """The queue in a folder.

    Args:
        folder: an existing one, held by this process alone.
        clock: Unix time.

    Raises:
        StoreError: the disk refuses.
        UserError: another version of PIKE wrote the file.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        with writing(folder):
            self._connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
            (found,) = self._connection.execute("PRAGMA user_version").fetchone()
            if found not in (0, VERSION):
                raise UserError(f"'{folder / FILE_NAME}' is of version {found}, not {VERSION}: choose another folder")
            # A commit survives the end of the process; after a power cut, clients submit again.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(f"{_TABLES} PRAGMA user_version={VERSION};")
        self.waiting = self._count("SELECT count(*) FROM submissions WHERE state = ?", QUEUED)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._connection.close()

    def open_ids(self) -> list[str]:
        """What waits or was under way when the last process ended, oldest first."""
        rows = self._ask("SELECT id FROM submissions WHERE state = ? ORDER BY number", QUEUED)
        return [str(id_) for (id_,) in rows]

    def told(self, id_: str) -> SubmissionState | None:
        """What is known of a submission; one under way counts as queued."""
        rows = self._ask("SELECT state, told FROM submissions WHERE id = ?", id_)
        if not rows:
            return None
        state, told = rows[0]
        return (
            decode(SubmissionState, json.loads(told))
            if told and state in (DONE, FAILED)
            else SubmissionState(id_, state)
        )

    def asked(self, id_: str) -> Submission | None:
        """The submission itself, if it still waits."""
        rows = self._ask("SELECT asked FROM submissions WHERE id = ? AND state = ?", id_, QUEUED)
        return decode(Submission, json.loads(rows[0][0])) if rows else None

    def settled(self, id_: str) -> bool:
        """Whether there is a verdict that a repetition would not change."""
        return bool(self._count("SELECT count(*) FROM submissions WHERE id = ? AND settled", id_))

    def wait_seconds(self, owner: str, quota: Quota) -> float:
        """How long an owner has to wait before something new is taken; 0 for not at all."""
        if quota == Quota():
            return 0.0
        open_claims = "FROM submissions CROSS JOIN claims USING (id) WHERE state = ? AND owner = ? AND open"
        queued = self._count(f"SELECT count(*) {open_claims}", QUEUED, owner)
        since = self._clock() - 3600.0
        ((hourly, oldest),) = self._ask("SELECT count(*), min(at) FROM claims WHERE owner = ? AND at > ?", owner, since)
        return quota.wait_seconds(Usage(queued, int(hourly), float(oldest or since)), self._clock())

    def add(self, id_: str, submission: Submission, owner: str) -> bool:
        """Take a submission, or one more owner of a known one; whether it has to be judged."""
        with self._transaction():
            known = self._ask("SELECT state, settled FROM submissions WHERE id = ?", id_)
            new = not known or (known[0][0] != QUEUED and not known[0][1])
            if not known:
                text = json.dumps(encode(submission))
                self._ask("INSERT INTO submissions (id, state, asked) VALUES (?, ?, ?)", id_, QUEUED, text)
            elif new:
                self._ask("UPDATE submissions SET state = ?, told = NULL, ended = NULL WHERE id = ?", QUEUED, id_)
            once_more = "ON CONFLICT DO UPDATE SET at = excluded.at, open = 1"
            self._ask(f"INSERT INTO claims VALUES (?, ?, ?, 1) {once_more}", id_, owner, self._clock())
        self.waiting += new
        return new

    def end(self, told: SubmissionState, *, settled: bool) -> None:
        """Store how a submission ended; one that was cancelled meanwhile keeps its verdict too."""
        with self._transaction():
            before = self._ask("SELECT state FROM submissions WHERE id = ?", told.id)
            text = json.dumps(encode(replace(told, stages=())))
            stored = "UPDATE submissions SET state = ?, told = ?, settled = ?, ended = ? WHERE id = ?"
            self._ask(stored, told.state, text, int(settled), self._clock(), told.id)
        self.waiting -= before[0][0] == QUEUED

    def fail(self, id_: str, problem: Problem) -> None:
        """Store why there is no verdict; the next submission of the same tries again."""
        self.end(SubmissionState(id_, FAILED, error=problem), settled=False)

    def cancel(self, id_: str, owner: str | None) -> bool:
        """Give up an owner's claim, or all for None; whether nobody wants it any more."""
        with self._transaction():
            self._ask("UPDATE claims SET open = 0 WHERE id = ? AND ? IN (owner, '')", id_, owner or "")
            wanted = self._count("SELECT count(*) FROM claims WHERE id = ? AND open", id_)
            waits = self._count("SELECT count(*) FROM submissions WHERE id = ? AND state = ?", id_, QUEUED)
            gone = bool(waits and not wanted)
            if gone:
                self._ask("UPDATE submissions SET state = ? WHERE id = ?", CANCELLED, id_)
        self.waiting -= gone
        return gone

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with writing(self._folder), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def _count(self, words: str, *values: Any) -> int:
        return int(self._ask(words, *values)[0][0])

    def _ask(self, words: str, *values: Any) -> list[Any]:
        with writing(self._folder):
            return self._connection.execute(words, values).fetchall()
