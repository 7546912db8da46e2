"""Whether the files that a task rests on are still what they were when the task was made.

Knows digests and when one must be computed again. Does not know what the files hold.
"""

import hashlib
import os

from pike.core.errors import UserError
from pike.core.task import Task, TaskFile


class TaskFiles:
    """Looks at the files of tasks, and reads one again only if its inode says that it changed."""

    def __init__(self) -> None:
        self._seen: dict[TaskFile, tuple[int, ...]] = {}

    def require_unchanged(self, task: Task) -> None:
        """Refuse a task one of whose files has changed or come; a file that is gone is no change.

        Raises:
            UserError: with the name of the file and the cure.
        """
        for file in task.files:
            if not self._same(file):
                raise UserError(
                    f"The file {file.path} has changed or come since the task '{task.id}' was made, so no verdict "
                    "would be about that task: restore or remove it and go on, or begin a new run"
                )

    def _same(self, file: TaskFile) -> bool:
        try:
            found = os.stat(file.path)
            # Nothing but the kernel sets the time of an inode's last change.
            state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if self._seen.get(file) == state:
                return True
            with open(file.path, "rb") as opened:
                same = hashlib.file_digest(opened, "sha256").hexdigest() == file.digest
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        if same:
            self._seen[file] = state
        return same
