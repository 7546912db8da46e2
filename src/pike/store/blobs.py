"""Long texts of a journal, each in a plain file named by its SHA-256.

Knows how texts leave a JSON value and come back. Does not know events or SQLite. A blob file exists
only with its full content: it is written under another name, synced and renamed.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pike.core.errors import StoreError, saying

BLOBS_NAME = "blobs"
"""The folder of blobs inside a run's folder."""
INLINE_CHARACTERS = 512
"""Longer strings are moved into a blob."""
REFERENCE = "$blob"
"""The key of the one-field object that stands for a moved string."""
_SURROGATES = "surrogatepass"


class Blobs:
    """The folder of blobs of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._durable: set[str] = set()

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Make contents durable under their digests; existing ones cost nothing."""
        changed: set[Path] = set()
        for digest, content in contents.items():
            if digest not in self._durable:
                changed |= self._write(self.path(digest), content)
        for folder in changed:
            sync_to_disk(folder)
        self._durable.update(contents)

    def get(self, digest: str) -> str:
        """The text under a digest.

        Raises:
            StoreError: it is missing or damaged.
        """
        path = self.path(digest)
        if not path.exists():
            raise StoreError(f"The journal refers to '{path}', which is missing")
        with saying(StoreError, f"'{path}' cannot be read"):
            content = path.read_bytes()
        if digest_of(content) != digest:
            raise StoreError(f"'{path}' is damaged: its content does not match its name")
        return content.decode("utf-8", _SURROGATES)

    def path(self, digest: str) -> Path:
        """The file of a digest, whether it exists or not."""
        return self._folder / digest[:2] / digest

    def _write(self, path: Path, content: bytes) -> set[Path]:
        """Write one blob; returns the folders to sync so that it survives a power cut."""
        if path.is_file() and path.stat().st_size == len(content):
            return {path.parent}
        changed = {path.parent}
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            changed |= {self._folder, self._folder.parent}
        unfinished = self._folder / f"unfinished-{threading.get_ident()}"
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return changed


def sync_to_disk(path: Path) -> None:
    """Make the content of a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(content: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(content).hexdigest()


def pack(value: Any, contents: dict[str, bytes], longest: float = INLINE_CHARACTERS) -> Any:
    """A copy of a JSON value with every long string replaced by a reference.

    Args:
        value: the JSON value.
        contents: receives the bytes of every moved string, by digest.
        longest: the most characters of a string that stays.

    Raises:
        ValueError: the value uses the reserved key itself.
    """
    if isinstance(value, str) and len(value) > longest:
        content = value.encode("utf-8", _SURROGATES)
        digest = digest_of(content)
        contents[digest] = content
        return {REFERENCE: digest}
    if isinstance(value, list):
        return [pack(item, contents, longest) for item in value]
    if isinstance(value, dict):
        if REFERENCE in value:
            raise ValueError(f"the key {REFERENCE!r} is reserved by the journal")
        return {key: pack(item, contents, longest) for key, item in value.items()}
    return value


def unpack(value: Any, get: Callable[[str], str]) -> Any:
    """The reverse of `pack`; `get` finds the text of a digest."""
    if isinstance(value, list):
        return [unpack(item, get) for item in value]
    if isinstance(value, dict):
        if REFERENCE in value:
            return get(value[REFERENCE])
        return {key: unpack(item, get) for key, item in value.items()}
    return value
