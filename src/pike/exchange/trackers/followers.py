"""The processes that track a run while it goes: begun with it, ended with it, never waited for long.

Knows how they are started and what is said of one that failed.
Does not know any tracker (`follow`).
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from pike.exchange.trackers.listing import require

LEAVE_SECONDS = 60.0
"""How long the end of a run waits for its trackers."""
LOG = "tracking-{}.log"


class Followers(AbstractContextManager["Followers"]):
    """One process for each tracker; a context that ends them."""

    def __init__(self, folder: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
        """Check that the trackers are there.

        Args:
            folder: the run's folder.
            names: the trackers.
            say: takes one sentence for each tracker that failed, when the context ends.

        Raises:
            UserError: one is unknown or not installed.
        """
        require(names)
        self._folder = folder
        self._names = tuple(dict.fromkeys(names))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._say = say

    def begin(self) -> None:
        """Start following; called once the journal has begun, later calls do nothing."""
        for name in () if self._running else self._names:
            with (self._folder / LOG.format(name)).open("wb") as log:
                self._running[name] = _start(self._folder, name, log)

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            if process.stdin is not None:
                process.stdin.close()
        for name, process in self._running.items():
            if failure := self._ended(name, process):
                self._say(failure)

    def _ended(self, name: str, process: subprocess.Popen[bytes]) -> str:
        """Wait for a tracker; a sentence where it failed."""
        again = f"pike export {self._folder} --to {name}"
        try:
            code = process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"Tracking with {name} took too long and was stopped; the run is whole: {again}"
        if code == 0:
            return ""
        lines = (self._folder / LOG.format(name)).read_text(errors="replace").strip().splitlines()
        why = lines[-1] if lines else f"exit code {code}"
        return f"Tracking with {name} failed ({why}); the run is whole: {again}"


def _start(folder: Path, name: str, log: BinaryIO) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pike.exchange.trackers", str(folder), name]
    # A session of its own: Ctrl-C stops the run, and the tracker ends after it.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
