"""Databases of ShinkaEvolve: one SQLite file with a table `programs`.

Knows its columns. Does not need the package. A wrong program has no reason there but its feedback.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.events import ImportedFrom
from pike.core.query import Answer
from pike.core.step import ORIGINAL
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Status
from pike.exchange.importers.foreign import ForeignCandidate, ForeignRun, ForeignVerdict, number, object_of
from pike.exchange.importers.openevolve import without_markers

TOOL = "ShinkaEvolve"
_COLUMNS = frozenset({"id", "code", "parent_id", "generation", "timestamp", "combined_score", "correct"})
_MISSING = (
    "Prompts and answers.",
    "Why a program was wrong, beside its feedback.",
    "Intervals, errors against the original, the device and its versions.",
)


def read(source: Path) -> Iterator[ForeignRun] | None:
    """The run of a database, or of the one in a results folder; None for another layout."""
    files = [source] if source.is_file() else sorted(source.glob("*.sqlite")) + sorted(source.glob("*.db"))
    path = next((path for path in files if _is_database(path)), None)
    return None if path is None else iter([_run(path)])


def _is_database(path: Path) -> bool:
    try:
        with closing(_open(path)) as connection:
            return {row[1] for row in connection.execute("PRAGMA table_info(programs)")} >= _COLUMNS
    except sqlite3.Error:
        return False


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def _run(path: Path) -> ForeignRun:
    try:
        with closing(_open(path)) as connection:
            rows = [dict(row) for row in connection.execute("SELECT * FROM programs ORDER BY generation, timestamp")]
    except sqlite3.Error as error:
        raise UserError(f"The database {path} cannot be read ({error}): it is damaged or in use") from error
    root = next((row for row in rows if not row["parent_id"]), None)
    if root is None:
        raise UserError(f"{path} holds no program without a parent, so that its original is unknown")
    name = f"{path.resolve().parent.name}-{path.stem}"
    models = [str(_json(row, "metadata").get("model_name") or "") for row in rows]
    return ForeignRun(
        name=name,
        task=Task(f"shinka/{name}", name, TaskKind.SOURCE, without_markers(root["code"]), str(path)),
        origin=ImportedFrom(TOOL, str(path.resolve()), _MISSING),
        strategy="shinka",
        original=_verdict(root),
        candidates=tuple(_candidates(rows, root)),
        model=next(filter(None, models), ""),
    )


def _candidates(rows: list[dict[str, Any]], root: dict[str, Any]) -> Iterator[ForeignCandidate]:
    """All programs but the original and its copies on other islands."""
    names = {row["id"]: ORIGINAL for row in rows if row["code"] == root["code"]}
    for row in rows:
        if row["id"] in names:
            continue
        names[row["id"]] = row["id"]
        metadata = _json(row, "metadata")
        title = ": ".join(str(metadata.get(key) or "") for key in ("patch_name", "patch_description"))
        usd = number(metadata.get("api_costs"))
        yield ForeignCandidate(
            key=row["id"],
            source=without_markers(row["code"]),
            verdict=_verdict(row),
            parent=names.get(row["parent_id"], ""),
            sample=int(row["generation"] or 0),
            note=f"{row['id']}: {title.strip(': ').partition(chr(10))[0]}".rstrip(": "),
            answer=None if usd is None else Answer("", model=str(metadata.get("model_name") or ""), usd=usd),
            at_seconds=number(row["timestamp"]),
            island=row.get("island_idx"),
        )


def _verdict(row: dict[str, Any]) -> ForeignVerdict:
    metrics = _json(row, "public_metrics")
    ms = number(metrics.get("runtime_ms")) or number(metrics.get("runtime"))
    score, log = number(row["combined_score"]), str(row.get("text_feedback") or "")
    if not row["correct"]:
        return ForeignVerdict(Status.WRONG_OUTPUT, score=score, reason=f"{TOOL} marked it incorrect", log=log)
    if not ms and not (score and score > 0):
        return ForeignVerdict(Status.RUNTIME_ERROR, score=score, reason=f"{TOOL} gave it no score", log=log)
    return ForeignVerdict(Status.VALID, ms, number(metrics.get("speedup")), score, log=log)


def _json(row: dict[str, Any], column: str) -> dict[str, Any]:
    try:
        return object_of(json.loads(row.get(column) or "{}"))
    except ValueError:
        return {}
