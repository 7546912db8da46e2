"""The files a run leaves beside its journal: `best.py` and `result.json`.

Knows when they are written and from what. Does not know pages (`report`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pike import store
from pike.core.errors import StoreError, UserError
from pike.core.events import Entry, RunStarted
from pike.core.task import Task
from pike.engine import bestfile
from pike.engine.bestfile import Terms
from pike.engine.files import write_text
from pike.engine.memory import Memory
from pike.engine.originals import Original
from pike.engine.result import BEST, RESULT, RunResult


def beginning(entries: Sequence[Entry], folder: Path) -> RunStarted:
    """The first event of a journal.

    Raises:
        UserError: the run has not begun.
    """
    if not entries or not isinstance(entries[0].event, RunStarted):
        raise UserError(f"The run in {folder} never began: remove the folder and start the run again")
    return entries[0].event


def remember(entries: Sequence[Entry], folder: Path) -> Memory:
    """The state that a journal stands for.

    Raises:
        UserError: the run has not begun.
    """
    beginning(entries, folder)
    memory = Memory()
    for entry in entries:
        memory.replay(entry)
    return memory


def written(folder: Path, result: RunResult) -> bool:
    """Whether the files of a finished run are there."""
    try:
        known = json.loads((folder / RESULT).read_text())
    except (OSError, ValueError):
        return False
    return bool(known.get("finished")) and (result.best_path is None or (folder / BEST).exists())


def write(folder: Path, task: Task, result: RunResult, original: Original | None) -> None:
    """Write what the run has come to; a run that is not finished writes its best so far, marked as such.

    Where the original stays there is no best file, also if the search had thought otherwise before it measured again.

    Raises:
        StoreError: the disk refuses.
    """
    if not result.improved:
        _remove(folder / BEST)
    elif result.best is not None and result.evaluation is not None:
        terms = Terms(
            task=task.id,
            kind=task.kind,
            candidate=result.best.id,
            call=original.call if original else None,
            init_inputs=original.init_inputs if original else None,
            dtypes=original.dtypes if original else None,
            device="cuda" if result.device.is_cuda else "cpu",
            final=result.finished,
            evaluation=replace(result.evaluation, log=""),
            pike_version=result.pike_version,
        )
        bestfile.write(folder / BEST, task, result.best, terms)
    write_text(folder / RESULT, json.dumps(result.flat(), indent=2) + "\n")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"The file {path} cannot be removed: {error.strerror}") from error


def remember_task(folder: Path) -> Task:
    """The problem of the run in `folder`.

    Raises:
        UserError: there is no run, or it has not begun.
    """
    return beginning(tuple(islice(store.read(folder), 1)), folder).task
