"""PIKE's own files in the user's folders.

Knows where caches lie, and how a file is written whole. Does not know what is in it.
"""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder for what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pike" / name


def write(path: Path, data: bytes) -> None:
    """Write next to the file's place and move it there.

    Raises:
        OSError: the disk refuses.
    """
    part = path.with_suffix(f".{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(data)
    part.replace(path)
