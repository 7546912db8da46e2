"""The suites inside the package: folders of KernelBench-format files.

Knows where they lie. Does not know any single task.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from pike.core.task import Task
from pike.tasks.sources import from_file
from pike.tasks.suite import Entry, Suite, by_number

FOLDER = Path(__file__).parent.parent / "suites"
"""Where the shipped suites lie, one folder each."""


def names() -> tuple[str, ...]:
    """The names of the suites that are installed, in alphabetical order."""
    return tuple(sorted(entry.name for entry in FOLDER.iterdir() if entry.is_dir() and any(entry.glob("*.py"))))


def load(name: str) -> Suite | None:
    """The shipped suite of that name, None where there is none."""
    if name not in names():
        return None
    files = [path for path in (FOLDER / name).glob("*.py") if not path.name.startswith("_")]
    return Suite(name, tuple(_entry(name, path) for path in sorted(files, key=lambda path: by_number(path.stem))))


def _entry(suite: str, path: Path) -> Entry:
    id = f"{suite}/{path.stem}"
    return Entry(path.stem, id, id, str(path), partial(_task, id, path))


def _task(id: str, path: Path) -> Task:
    return replace(from_file(path, id=id), import_paths=())
