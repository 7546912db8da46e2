"""One writer for each run folder, by `flock` on a file that is never removed.

Knows that the kernel drops the lock with its process, so that it never outlives a crash. A bare
`fork` shares it, a judge started by `exec` does not. Does not know what is written. Keep run
folders on a local disk: SQLite's write-ahead log needs one host.
"""

import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from pike.core.errors import UserError
from pike.store.boundary import writing

LOCK_NAME = "journal.lock"


def holder(folder: Path) -> int | None:
    """The process that holds the lock of a run, None where none of this machine's does.

    The lock itself is not touched, so that nobody who takes it is refused because of this look.
    """
    path = folder / LOCK_NAME
    try:
        said = json.loads(path.read_bytes())
        pid, here = int(said["pid"]), said["host"] == socket.gethostname()
        opened = list(Path(f"/proc/{pid}/fd").iterdir()) if here else []
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if any(_same(one, path) for one in opened) else None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


class RunLock:
    """The right to write one run; held until `close` or the end of the process."""

    def __init__(self, folder: Path, now_seconds: float) -> None:
        """Take the lock.

        Args:
            folder: an existing run folder.
            now_seconds: Unix time, told to a process that is refused.

        Raises:
            UserError: another holder has it; the message names it.
            StoreError: the lock file cannot be written.
        """
        with writing(folder):
            self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._take(folder, now_seconds)
            except BaseException:
                os.close(self._descriptor)
                raise

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._descriptor)

    def _take(self, folder: Path, now_seconds: float) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Run '{folder}' is in use by {self._holder()}: wait until it ends, or stop it, then try again"
            ) from None
        since = datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="seconds")
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def _holder(self) -> str:
        """The holder of the lock, as far as the file tells; it may be half written."""
        try:
            said = json.loads(os.pread(self._descriptor, 4096, 0))
            return f"process {said['pid']} on {said['host']} since {said['since']}"
        except (ValueError, KeyError, TypeError):
            return "another process"
