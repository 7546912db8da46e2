"""A folder that appears whole or not at all.

Knows that it is filled under another name first. Does not know what is in it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pike.core.errors import UserError, saying


@contextmanager
def drafted(path: Path, what: str) -> Iterator[Path]:
    """The place of a draft, which is moved to `path` once the block has filled it.

    Raises:
        UserError: the disk refused; `what` is named.
    """
    draft = path.with_name(f".{path.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with saying(UserError, f"The {what} {path} cannot be written", "choose another --out"):
            yield draft
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
