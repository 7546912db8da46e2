"""The suites inside the package: folders of KernelBench-format files.

Knows where they lie and how a task in them is found by id. Does not know any single task.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.sources import from_file

_FOLDER = Path(__file__).parent / "suites"


def suites() -> tuple[str, ...]:
    """The names of the suites that are installed, in alphabetical order."""
    return tuple(sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir() and any(entry.glob("*.py"))))


def in_suite(suite: str) -> tuple[Task, ...]:
    """The tasks of a suite, in the order of their file names.

    Raises:
        UserError: there is no such suite.
    """
    return tuple(_task(suite, path) for path in _files(suite))


def find(suite: str, id: str) -> Task:
    """One task of a suite; `id` is its file's stem.

    Raises:
        UserError: there is no such suite or no such task in it; the message offers the nearest name.
    """
    files = {path.stem: path for path in _files(suite)}
    if id not in files:
        raise UserError(f"Suite '{suite}' has no task '{id}'{nearest(id, files)}")
    return _task(suite, files[id])


def _files(suite: str) -> list[Path]:
    if suite not in suites():
        raise UserError(f"There is no suite '{suite}'{nearest(suite, suites())}")
    return sorted(path for path in (_FOLDER / suite).glob("*.py") if not path.name.startswith("_"))


def _task(suite: str, path: Path) -> Task:
    return replace(from_file(path, id=f"{suite}/{path.stem}"), import_paths=())
