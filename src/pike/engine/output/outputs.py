"""The files that a run leaves beside its journal: `best.py` and `result.json`.

Knows when they are written and from what. Does not know pages (`reporting`).
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from pike.core.errors import StoreError, saying
from pike.core.task import Task
from pike.engine.output import best_file
from pike.engine.output.best_file import Terms
from pike.engine.output.originals import OriginalModel
from pike.engine.output.result import BEST, RESULT, RunResult
from pike.store.whole import write_text


def written(folder: Path, result: RunResult) -> bool:
    """Whether the files of a finished run are there."""
    try:
        known = json.loads((folder / RESULT).read_text())
    except (OSError, ValueError):
        return False
    return bool(known.get("finished")) and (result.best_path is None or (folder / BEST).exists())


def write(folder: Path, task: Task, result: RunResult, original: OriginalModel | None) -> None:
    """Write what the run has come to; `best.py` of an unfinished run says that it is not final.

    Where the original stays there is no `best.py`, even if an earlier process wrote one.

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
            constants=original.constants if original else None,
            source_sha256=hashlib.sha256(task.source.encode()).hexdigest(),
            run=folder.name,
            recipes=result.best.recipes,
        )
        best_file.write(folder / BEST, task, result.best, terms)
    write_text(folder / RESULT, json.dumps(result.flat(), indent=2) + "\n")


def _remove(path: Path) -> None:
    with saying(StoreError, f"The file {path} cannot be removed"):
        path.unlink(missing_ok=True)
