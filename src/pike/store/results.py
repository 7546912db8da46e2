"""Results of contenders on disk: for each task and precision one JSON file, or many in one file of JSON lines.

Knows how they are written so that a kill loses nothing that was complete, and read back from any folder. Does not know
how they came about or what they add up to.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pike.core.codec import decode, encode
from pike.core.errors import StoreError, UserError
from pike.core.results import Result, latest

FORMAT = "pike-results-1"
"""Stands in every file, so that a folder may hold other JSON too."""


class ResultFolder:
    """A folder with one file for each task and precision, which holds the results of all contenders there.

    Safe to use from several threads of one process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def put(self, result: Result) -> None:
        """Keep a result; it takes the place of an earlier one of the same contender.

        Raises:
            StoreError: the disk refuses.
        """
        path = self.folder / f"{_file_name(result.task)}_{result.precision.value}.json"
        with self._lock:
            known = _read_file(path) if path.exists() else []
            entries = [encode(one) for one in latest([*known, result])]
            _replace(path, json.dumps({"format": FORMAT, "results": entries}, indent=1) + "\n")


class ResultLines:
    """One file to which results are appended, a line each: one file is quickly carried from machine to machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def put(self, result: Result) -> None:
        """Append a result.

        Raises:
            StoreError: the disk refuses.
        """
        line = json.dumps({"format": FORMAT} | encode(result), separators=(",", ":"))
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a+b") as file:
                    file.write(_gap(file) + line.encode() + b"\n")
            except OSError as error:
                raise StoreError(f"The file {self.path} cannot be written: {error.strerror}") from error


def read_results(paths: Iterable[Path]) -> tuple[Result, ...]:
    """Everything in these files and folders (with all folders below), the newest result of each cell.

    Files of other formats are passed over, and so is the last line of a file that somebody was killed while writing.

    Raises:
        UserError: a path does not exist, or a result in it cannot be read.
    """
    return latest(result for path in paths for file in _files(path) for result in _read_file(file))


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*.json*") if file.suffix in (".json", ".jsonl"))
    if not path.is_file():
        raise UserError(f"There is no file or folder {path} with results")
    return [path]


def _read_file(path: Path) -> list[Result]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The file {path} cannot be read: {error}") from error
    entries = _lines(text) if path.suffix == ".jsonl" else _whole(text)
    try:
        return [decode(Result, entry) for entry in entries]
    except ValueError as error:
        raise UserError(f"The file {path} holds a result that this version cannot read: {error}") from error


def _whole(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return []
    return found.get("results", []) if isinstance(found, dict) and found.get("format") == FORMAT else []


def _lines(text: str) -> list[dict[str, Any]]:
    entries = []
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict) and found.pop("format", "") == FORMAT:
            entries.append(found)
    return entries


def _gap(file: IO[bytes]) -> bytes:
    """A line break where somebody was killed in the middle of a line."""
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def _file_name(task: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", task)


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise StoreError(f"The file {path} cannot be written: {error.strerror}") from error
