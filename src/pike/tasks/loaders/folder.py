"""Any folder of KernelBench-format files.

Knows that files without a model are no tasks. Does not look into subfolders.
"""

from pathlib import Path

from pike.core.errors import UserError
from pike.tasks.suite import Suite, entries_in


def load(name: str) -> Suite | None:
    """The tasks in the folder of that name, None if it is not a folder.

    Raises:
        UserError: the folder holds no task.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return None
    if not (found := entries_in(folder, label=folder.resolve().name)):
        raise UserError(f"The folder {name} holds no task: put KernelBench-format files into it")
    return Suite(name.rstrip("/"), found)
