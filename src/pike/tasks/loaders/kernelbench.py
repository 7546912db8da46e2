"""Checkouts in KernelBench's layout: a folder for each level, a numbered file for each task.

Knows where levels lie in KernelBench itself (`KernelBench/level1`, Ouyang et al. 2025,
arXiv:2502.10517), in forks with levels of their own (`level3-pike`, `level5`), and in METR's
filtered version (`tasks/kernelbench/assets/level_1`). Does not know what a task file holds.
"""

import re
from pathlib import Path

from pike.core.errors import UserError
from pike.tasks.suite import Suite, entries_in

_LEVEL = re.compile(r"level_?\d+([-_].*)?")
_PLACES = ("KernelBench", "tasks/kernelbench/assets", "tasks", ".")
"""Folders of a checkout that may hold the levels; the first that has any counts."""


def load(name: str) -> Suite | None:
    """The tasks of a checkout, or of one level for `FOLDER/LEVEL`; None for any other name.

    Raises:
        UserError: its levels hold no task.
    """
    path = Path(name).expanduser()
    if levels := _levels(path):
        label = path.resolve().name
        found = [entry for level in levels for entry in entries_in(level, label, f"{level.name}/", alone=True)]
    else:
        one = next((level for level in _levels(path.parent) if level.name == path.name), None)
        if one is None:
            return None
        found = list(entries_in(one, path.name, alone=True))
    if not found:
        raise UserError(f"The levels of {name} hold no task: give a checkout of KernelBench")
    return Suite(name.rstrip("/"), tuple(found))


def _levels(root: Path) -> list[Path]:
    """The folders of a checkout's levels, empty if it is no checkout."""
    for place in _PLACES:
        folder = root / place
        children = folder.iterdir() if folder.is_dir() else ()
        found = [one for one in children if _LEVEL.fullmatch(one.name) and one.is_dir() and any(one.glob("*.py"))]
        if found:
            return sorted(found, key=lambda level: level.name)
    return []
