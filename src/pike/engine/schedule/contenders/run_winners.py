"""What finished runs found, as the fixed candidates of a contender.

Knows that a run speaks for a task of the same source at the same precision. Does not know how a
candidate is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pike import store
from pike.core.errors import UserError
from pike.core.events import RunStarted
from pike.core.task import Task
from pike.core.verdict.evaluation import Precision
from pike.engine.output.result import RunResult, result_of
from pike.engine.state.resume import read_state
from pike.store.schema import FILE_NAME


@dataclass(frozen=True, slots=True)
class RunWinners:
    """The runs in a folder and below it, for example those of a campaign.

    Raises:
        UserError: there is none.
    """

    folder: Path

    def __post_init__(self) -> None:
        if next(iter(self._runs()), None) is None:
            raise UserError(f"There is no run in {self.folder}: give run: and the folder of a run or a campaign")

    def winner(self, task: Task, precision: Precision) -> RunResult | None:
        """The finished run on that task with the greatest speedup, None without one."""
        return max(self._finished(task, precision), key=lambda found: found.speedup or 0.0, default=None)

    def _finished(self, task: Task, precision: Precision) -> Iterator[RunResult]:
        for folder in self._runs():
            begun = next((entry.event for entry in store.read(folder)), None)
            if not isinstance(begun, RunStarted) or begun.config.evaluate.precision is not precision:
                continue
            if begun.task.source != task.source:
                continue
            state = read_state(folder)
            if state.finished is not None:
                yield result_of(state, folder, state.seconds)

    def _runs(self) -> Iterable[Path]:
        return (path.parent for path in sorted(self.folder.rglob(FILE_NAME)))
