"""Solutions that somebody published: a folder with one for each task.

Knows which file of a folder belongs to a task. Does not know who wrote it or what is in it; it is judged as it stands,
whatever the declared precision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task

PREFIX = "published:"
"""What the name of such an opponent begins with; a folder follows."""


@dataclass(frozen=True, slots=True)
class Published:
    """A folder of solutions.

    For the task `9_ResNet18`, its solution is `9_ResNet18.py`, `9.py`, `task_9.py` or any `9_*.py`, in this order, or
    the one Python file of a folder with such a name. Upper and lower case are alike.

    Raises:
        UserError: there is no such folder.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise UserError(f"There is no folder of published solutions {self.folder}: give published:FOLDER")

    @property
    def name(self) -> str:
        """What tables call it: the folder's own name and no path."""
        return f"{PREFIX}{self.folder.resolve().name}"

    def find(self, task: Task) -> tuple[Path | None, str]:
        """The file for a task; else None and the reason."""
        stem = task.id.rpartition("/")[2].partition(":")[0]
        for pattern in _patterns(stem):
            matching = [path for path in sorted(self.folder.iterdir()) if _is_called(path, pattern)]
            found = [file for path in matching for file in _files(path)]
            if len(found) == 1:
                return found[0], ""
            if matching:
                names = ", ".join(str(path.relative_to(self.folder)) for path in found) or "no Python file"
                return None, f"{self.name} is not clear about {stem}: {names}"
        return None, f"{self.name} has no solution for {stem}"


def _patterns(stem: str) -> list[str]:
    number = stem.partition("_")[0]
    exact = [re.escape(stem)]
    return [*exact, re.escape(number), f"task_{number}", f"{number}_.*"] if number.isdigit() else exact


def _is_called(path: Path, pattern: str) -> bool:
    name = path.name if path.is_dir() else path.stem
    return (path.is_dir() or path.suffix == ".py") and re.fullmatch(pattern, name, re.IGNORECASE) is not None


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
