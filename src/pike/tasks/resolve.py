"""From what a user types to a task.

Knows the three forms of a task's name and tells them apart. Does not know how each is read.
"""

from __future__ import annotations

from pathlib import Path

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.callables import from_callable
from pike.tasks.shipped import find, in_suite, suites
from pike.tasks.sources import from_file


def resolve(text: str, *, folder: Path | None = None) -> Task:
    """The task called `text`.

    Args:
        text: the path of a KernelBench-format file, `SUITE/ID`, or `package.module:callable`.
        folder: where the module of a `package.module:callable` is kept; the user's cache by default.

    Raises:
        UserError: nothing has that name (the nearest names are offered), or what has it cannot be used.
    """
    path = Path(text).expanduser()
    if path.is_file():
        return from_file(path)
    suite, slash, id = text.partition("/")
    if slash and suite in suites():
        return find(suite, id)
    if path.suffix == ".py" or path.is_dir():
        raise UserError(f"There is no task file {text}{'; it is a folder' if path.is_dir() else ''}")
    if ":" in text and "/" not in text:
        return from_callable(text, folder=folder)
    known = [task.id for name in suites() for task in in_suite(name)]
    by_id = {name.partition("/")[2]: name for name in known}
    hint = f"; did you mean '{by_id[text]}'?" if text in by_id else nearest(text, known)
    raise UserError(f"There is no task '{text}': give a file, SUITE/ID or package.module:callable{hint}")
