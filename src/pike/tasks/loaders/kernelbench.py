"""Checkouts in KernelBench's layout: a folder for each level, a numbered file for each task.

Knows where levels lie in KernelBench itself (`KernelBench/level1`, Ouyang et al. 2025, arXiv:2502.10517), in forks that
add levels of their own (`level3-pike`, `level5`), and in METR's filtered version (`tasks/kernelbench/assets/level_1`),
whose files follow the same conventions. Does not look into the files beyond telling tasks from other files.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.sources import from_file, looks_like_a_task
from pike.tasks.suite import Entry, Suite, by_number

_LEVEL = re.compile(r"level_?\d+([-_].*)?")
_PLACES = ("KernelBench", "tasks/kernelbench/assets", "tasks", ".")
"""Where the levels may lie below the folder of a checkout; the first place that has any counts."""


def load(name: str) -> Suite | None:
    """The tasks of all levels of the checkout in that folder, or of one for `FOLDER/LEVEL`; else None.

    Raises:
        UserError: its levels hold no task.
    """
    path = Path(name).expanduser()
    levels = _levels(path)
    if levels:
        found = [entry for level in levels for entry in _entries(_label(path), level, f"{level.name}/")]
    else:
        one = next((level for level in _levels(path.parent) if level.name == path.name), None)
        if one is None:
            return None
        found = _entries(path.name, one, "")
    if not found:
        raise UserError(f"The levels of {name} hold no task: give a checkout of KernelBench")
    return Suite(name.rstrip("/"), tuple(found))


def _levels(root: Path) -> list[Path]:
    """The folders of levels of a checkout, none where it is not one."""
    for place in _PLACES:
        folder = root / place
        found = [child for child in folder.iterdir() if _is_level(child)] if folder.is_dir() else []
        if found:
            return sorted(found, key=lambda level: level.name)
    return []


def _is_level(folder: Path) -> bool:
    return bool(_LEVEL.fullmatch(folder.name)) and folder.is_dir() and any(folder.glob("*.py"))


def _label(path: Path) -> str:
    return path.resolve().name


def _entries(label: str, level: Path, prefix: str) -> list[Entry]:
    files = sorted(level.glob("*.py"), key=lambda path: by_number(path.stem))
    return [_entry(label, path, prefix) for path in files if looks_like_a_task(path)]


def _entry(label: str, path: Path, prefix: str) -> Entry:
    id = f"{prefix}{path.stem}"
    name, whole = f"{label}/{id}", str(path.resolve())
    return Entry(id, name, whole, whole, partial(_task, name, path))


def _task(name: str, path: Path) -> Task:
    # The files stand alone, and names that begin with a number cannot be imported.
    return replace(from_file(path, id=name), import_paths=())
