"""Pause, stop and resume a run from outside, by the means that a person at a terminal has.

Knows Ctrl-C, once and twice, and `pike resume`. Does not know who may ask (`guard`). No process
stands still: a paused run is carried on where its journal ends, by another process.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pike.api.views import FollowedRun
from pike.core.errors import UserError, saying

LOG = "resume.log"
"""The file in a run's folder that takes what a resumed run prints."""
_APART_SECONDS = 1.0
"""How long a process may take to end at the first signal, before the second one."""
_BEGIN_SECONDS = 20.0
"""How long a resumed run is looked at until its journal goes on."""


class Control:
    """What was paused, stopped and resumed here. Any thread may ask."""

    def __init__(self) -> None:
        self._interrupted: dict[int, int] = {}
        self._resumed: dict[str, subprocess.Popen[bytes]] = {}
        self._mutex = threading.Lock()

    def pause(self, run: FollowedRun) -> str:
        """Ask the process that works on a run to end soon, as Ctrl-C does once.

        Raises:
            UserError: no process works on it.
        """
        self._interrupt(run, 1)
        return "Asked to pause; what is in flight is judged first. A campaign pauses as a whole."

    def stop(self, run: FollowedRun) -> str:
        """Ask the process that works on a run to end at once, as Ctrl-C does twice.

        Raises:
            UserError: no process works on it.
        """
        self._interrupt(run, 2)
        return "Asked to stop at once; a resume judges anew what was in flight. A campaign stops as a whole."

    def _interrupt(self, run: FollowedRun, times: int) -> None:
        with self._mutex:
            pid = run.holder()
            if pid is None or pid == os.getpid():
                raise UserError("No process of this machine works on this run: there is nothing to stop")
            while self._interrupted.get(pid, 0) < times and run.holder() == pid:
                with saying(UserError, f"Process {pid} cannot be stopped from here"):
                    os.kill(pid, signal.SIGINT)
                self._interrupted[pid] = self._interrupted.get(pid, 0) + 1
                _wait(lambda: run.holder() != pid, _APART_SECONDS)

    def resume(self, run: FollowedRun) -> str:
        """Carry a run on in a process of its own, which outlives this one.

        Raises:
            UserError: it is finished or imported, a process works on it, or the new one ended at
                once; then in that one's words.
        """
        with self._mutex:
            if run.holder() is not None or self._alive(run):
                raise UserError("A process works on this run already")
            state, before = run.summary().state, run.summary().resumed
            if state in ("finished", "imported"):
                raise UserError(f"This run is {state}: there is nothing to resume")
            folder = run.folder.resolve()
            with (folder / LOG).open("ab") as log:
                process = self._resumed[str(folder)] = subprocess.Popen(
                    [sys.executable, "-m", "pike", "resume", str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        _wait(lambda: run.summary().resumed > before or process.poll() is not None, _BEGIN_SECONDS)
        if process.poll():
            raise UserError((folder / LOG).read_text(errors="replace").rstrip().rpartition("\n")[2])
        return f"Resumed; what it prints goes to {LOG} in its folder."

    def _alive(self, run: FollowedRun) -> bool:
        process = self._resumed.get(str(run.folder.resolve()))
        with suppress(ProcessLookupError):
            return process is not None and process.poll() is None
        return False


def _wait(until: Callable[[], bool], seconds: float) -> None:
    patience = time.monotonic() + seconds
    while not until() and time.monotonic() < patience:
        time.sleep(0.05)
