"""Files that are whole or absent, never half written.

Knows how to replace a file atomically. Does not know what is in it.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pike.core.errors import StoreError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file next to its place, which is moved there once the block has written it to its end.

    Raises:
        StoreError: the disk refuses.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise StoreError(f"The file {path} cannot be written: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or absent.

    Raises:
        StoreError: the disk refuses.
    """
    with replacing(path) as file:
        file.write(text.encode())
