"""Result files that are whole or absent, never half written.

Knows how to replace a file atomically. Does not know what is in it.
"""

import os
from pathlib import Path

from pike.core.errors import StoreError


def write_text(path: Path, text: str) -> None:
    """Write a file next to its place and move it there.

    Raises:
        StoreError: the disk refuses.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StoreError(f"The file {path} cannot be written: {error.strerror}") from error
