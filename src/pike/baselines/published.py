"""Published solutions: a folder with one file for each task.

Knows which file belongs to a task. Does not look into it; it is judged as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pike.core.errors import UserError
from pike.core.task import Task

PREFIX = "published:"
"""What the name of such a contender begins with; a folder follows."""


@dataclass(frozen=True, slots=True)
class PublishedFolder:
    """A folder of solutions.

    The solution of the task `9_ResNet18` is `9_ResNet18.py`, `9.py`, `task_9.py` or any `9_*.py`,
    in this order. It may also be the one Python file of a folder with such a name. Upper and lower
    case are alike.

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

    def read(self, task: Task) -> tuple[str, str]:
        """The solution of a task and an empty reason; or an empty text and why there is none."""
        path, reason = self.find(task)
        if path is None:
            return "", reason
        try:
            return path.read_text(encoding="utf-8"), ""
        except (OSError, UnicodeDecodeError) as error:
            return "", f"{path.name} cannot be read: {error}"

    def find(self, task: Task) -> tuple[Path | None, str]:
        """The file of a task; else None and the reason."""
        stem = task.id.rpartition("/")[2].partition(":")[0]
        for pattern in _patterns(stem):
            matching = [path for path in sorted(self.folder.iterdir()) if _is_called(path, pattern)]
            found = [file for path in matching for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
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
