"""A run that another process carries out, as snapshots from its journal alone.

Knows how to tell what is in progress from what was written. Does not know who looks, and never
keeps the writer waiting.
"""

import signal
import time
from pathlib import Path

from pike import store
from pike.core.events import (
    Asked,
    Assigned,
    Finished,
    JournalEntry,
    Proposed,
    QueryAnswered,
    QuerySent,
    Resumed,
    RunStarted,
    Stopped,
    Told,
)
from pike.engine.state.progress import JUDGED, Observer, ProgressBoard, doing_of
from pike.engine.state.resume import beginning
from pike.engine.state.run_state import RunState

LOOK_SECONDS = 0.25


def rest(seconds: float) -> None:
    """Sleep; an interrupt that was held back before, or comes meanwhile, ends it.

    Raises:
        KeyboardInterrupt: there was one.
    """
    if signal.sigtimedwait({signal.SIGINT}, seconds) is not None:
        raise KeyboardInterrupt


class WatchedRun:
    """One run, read on from where it was read to before.

    Raises:
        UserError: there is no run in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = RunState()
        self._board = ProgressBoard(self.state, None)
        self._last_seq, self._last_at = 0, 0.0
        self._open: set[int] = set()
        self._read_on()

    @property
    def is_held(self) -> bool:
        """Whether a process of this machine works on it."""
        return store.holder(self.folder) is not None

    @property
    def seconds(self) -> float:
        """Its running time by now, the pauses between processes excluded."""
        return self.state.seconds + (max(0.0, time.time() - self._last_at) if self.is_held else 0.0)

    def until_it_ends(self, observer: Observer) -> None:
        """Tell what happens until no process works on it, at least where it stands now.

        Raises:
            UserError: it ended before it had begun.
            StoreError: the journal cannot be read.
        """
        while not self.state.started and self.is_held:
            self._pause()
        if not self.state.started:
            beginning((), self.folder)
        observer(self._board.snapshot())
        self._board.observer = observer
        while self.is_held:
            self._pause()
        self._read_on()

    def _pause(self) -> None:
        rest(LOOK_SECONDS)
        self._read_on()

    def _read_on(self) -> None:
        for entry in store.read(self.folder, self._last_seq, without_texts=(QuerySent, QueryAnswered)):
            self._take(entry)

    def _take(self, entry: JournalEntry) -> None:
        self._last_seq, self._last_at = entry.seq, entry.at_seconds
        self.state.replay(entry)
        match entry.event:
            case RunStarted():
                self._board.enter("searching")
            case Asked(step=step):
                self._show(step.id)
            case Proposed(step_id=step_id):
                self._show(step_id)
            case Assigned(candidate_id=name, worker=worker):
                step = next(one.step for one in self.state.open_steps() if one.candidate and one.candidate.id == name)
                self._board.doing(step, worker)
            case Told(step_id=step_id):
                self._hide(step_id)
            case Resumed():
                for begun in self.state.open_steps():
                    self._show(begun.step.id)
            case Stopped(for_good=False):  # calls are given up or only waited for; candidates are still judged
                for begun in self.state.open_steps():
                    if begun.candidate is None:
                        self._hide(begun.step.id)
            case Finished():
                self._board.enter("done")
        if self.state.closing and not self._open and not self.state.finished:
            self._board.enter("measuring")
        self._board.happened(entry.event)

    def _show(self, step_id: int) -> None:
        step = self.state.steps[step_id]
        self._open.add(step_id)
        self._board.doing(step.step, JUDGED if step.candidate else doing_of(step.step))

    def _hide(self, step_id: int) -> None:
        self._open.discard(step_id)
        self._board.drop(f"c{step_id}")
