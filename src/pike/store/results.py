"""Results of contenders on disk: a JSON line each.

Knows how they are written so that a kill loses nothing that was complete, and read back from any
folder. Does not know how they came about or what they add up to.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pike.core.codec import decode, encode
from pike.core.comparison.results import Result, latest
from pike.core.errors import StoreError, UserError, saying

FORMAT = "pike-results-1"
"""Stands in every line and file, so that a folder may hold other JSON too."""
_ENDINGS = (".json", ".jsonl", ".jsonl.gz")


def append_result(path: Path, result: Result) -> None:
    """Append a result to a file: one file is quickly carried from machine to machine.

    Raises:
        StoreError: the disk refuses.
    """
    append_line(path, json.dumps({"format": FORMAT} | encode(result), separators=(",", ":")))


def append_line(path: Path, line: str) -> None:
    """Append a line to a file, behind a line break if a kill left the last one unfinished.

    Raises:
        StoreError: the disk refuses.
    """
    with saying(StoreError, f"The file {path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.write(_gap(file) + line.encode() + b"\n")


def read_results(paths: Iterable[Path]) -> tuple[Result, ...]:
    """The newest result of each cell in these files and folders, with all folders below.

    Compressed lines (`.jsonl.gz`) are read too. Files of other formats are passed over, and so is a
    last line that a kill cut off.

    Raises:
        UserError: a path does not exist, or a result in it cannot be read.
    """
    return latest(results_in(paths))


def results_in(paths: Iterable[Path]) -> tuple[Result, ...]:
    """Everything in these files and folders, repeats too, in the order in which it was written.

    Raises:
        UserError: as `read_results`.
    """
    return tuple(result for path in paths for file in _files(path) for result in _read_file(file))


def _files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*.json*") if file.name.endswith(_ENDINGS))
    if not path.is_file():
        raise UserError(f"There is no file or folder {path} with results")
    return [path]


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects among the lines of a file; other lines, and one that was cut off, are passed
    over.

    Raises:
        UserError: the file cannot be read.
    """
    for line in _text(path).splitlines():
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found


def _read_file(path: Path) -> list[Result]:
    entries = json_lines(path) if ".jsonl" in path.suffixes else _whole(_text(path))
    mine = [entry for entry in entries if entry.pop("format", "") == FORMAT]
    try:
        return [decode(Result, entry) for entry in mine]
    except ValueError as error:
        raise UserError(f"The file {path} holds a result that this version cannot read: {error}") from error


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"The file {path} cannot be read: {error}") from error


def _whole(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return []
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return []
    return [entry | {"format": FORMAT} for entry in found.get("results", [])]


def _gap(file: IO[bytes]) -> bytes:
    """A line break if the file ends in the middle of a line."""
    if file.seek(0, os.SEEK_END) == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"
