"""Any folder of KernelBench-format files.

Knows that files which define no model are no tasks. Does not look into subfolders.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pike.core.errors import UserError
from pike.tasks.sources import from_file, looks_like_a_task
from pike.tasks.suite import Entry, Suite, by_number


def load(name: str) -> Suite | None:
    """The tasks in the folder of that name, None where it is not a folder.

    Raises:
        UserError: the folder holds no task.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return None
    files = sorted(folder.glob("*.py"), key=lambda path: by_number(path.stem))
    label = folder.resolve().name
    found = tuple(_entry(label, path) for path in files if looks_like_a_task(path))
    if not found:
        raise UserError(f"The folder {name} holds no task: put KernelBench-format files into it")
    return Suite(name.rstrip("/"), found)


def _entry(label: str, path: Path) -> Entry:
    name, whole = f"{label}/{path.stem}", str(path.resolve())
    return Entry(path.stem, name, whole, whole, partial(from_file, path, id=name))
