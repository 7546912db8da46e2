"""What an export brought, and how its folder is written.

Knows that an export replaces only what an earlier one wrote. Does not know any form.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.exchange.drafts import drafted

MARK = "pike.json"
"""Names the run of an exported folder; only a folder that holds this file is ever replaced."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported run.

    Attributes:
        to: the form.
        path: the folder or file, or the address of the store that took it.
        sentence: what it holds, for people.
        counts: the same for programs.
    """

    to: str
    path: str
    sentence: str
    counts: dict[str, Any] = field(default_factory=dict)


def replace_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write a folder whole: it appears once `write` has filled it, in place of an earlier export.

    Raises:
        UserError: something else is in the way, or the disk refused.
    """
    if path.exists() and not (path / MARK).is_file():
        raise UserError(f"The folder {path} holds something else: choose another one with --out")
    with drafted(path, "export") as draft:
        draft.mkdir(parents=True)
        write(draft)
        shutil.rmtree(path, ignore_errors=True)
