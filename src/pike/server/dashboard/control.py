"""Stop and resume a run from outside, by the means that a person at a terminal has.

Knows Ctrl-C and `pike resume`. Does not know who may ask (`guard`). There is no pause: a stopped
run is carried on where its journal ends.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from pike.api.views import FollowedRun
from pike.core.errors import UserError

LOG = "resume.log"
"""The file in a run's folder that takes what a resumed run prints."""


class Control:
    """What was stopped and resumed here. Any thread may ask."""

    def __init__(self) -> None:
        self._stopping: set[int] = set()
        self._resumed: dict[str, subprocess.Popen[bytes]] = {}
        self._mutex = threading.Lock()

    def stop(self, run: FollowedRun) -> str:
        """Ask the process that works on a run to stop, as Ctrl-C does once.

        Raises:
            UserError: no process works on it.
        """
        with self._mutex:
            pid = run.holder()
            if pid is None or pid == os.getpid():
                raise UserError("No process of this machine works on this run: there is nothing to stop")
            if pid in self._stopping:
                return "It is stopping: what is in flight is judged first."
            try:
                os.kill(pid, signal.SIGINT)
            except OSError as error:
                raise UserError(f"Process {pid} cannot be stopped from here: {error.strerror}") from error
            self._stopping.add(pid)
            return "Asked to stop; what is in flight is judged first. A campaign stops as a whole."

    def resume(self, run: FollowedRun) -> str:
        """Carry a run on in a process of its own, which outlives this one.

        Raises:
            UserError: it is finished, or a process works on it.
        """
        with self._mutex:
            if run.holder() is not None or self._alive(run):
                raise UserError("A process works on this run already")
            if run.summary().state == "finished":
                raise UserError("This run is finished: there is nothing to resume")
            folder = run.folder.resolve()
            with (folder / LOG).open("ab") as log:
                self._resumed[str(folder)] = subprocess.Popen(
                    [sys.executable, "-m", "pike", "resume", str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            return f"Resumed; what it prints goes to {LOG} in its folder."

    def _alive(self, run: FollowedRun) -> bool:
        process = self._resumed.get(str(run.folder.resolve()))
        with suppress(ProcessLookupError):
            return process is not None and process.poll() is None
        return False
