"""Weights & Biases: a run of the project `pike`, offline unless `WANDB_MODE` says otherwise.

Knows its client. `wandb sync` sends an offline run. Candidates become one artefact at the end.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike.exchange.trackers.tracker import PROJECT, TrackedPlace, TrackedRun

STEP = "verdicts"
"""The horizontal axis: W&B's own step cannot go back, and the first points of series come late."""


def open(run: TrackedRun) -> "_WandbRun":
    """Begin a run whose id is that of the journal."""
    import wandb

    folder = run.out or Path(os.environ.get("WANDB_DIR") or run.folder)
    folder.mkdir(parents=True, exist_ok=True)
    begun = wandb.init(
        project=PROJECT,
        name=run.name,
        id=run.key,
        resume="allow",
        dir=str(folder),
        mode=os.environ.get("WANDB_MODE", "offline"),
        config=dict(run.parameters),
        settings=wandb.Settings(console="off", silent=True),
    )
    begun.define_metric("*", step_metric=STEP)
    return _WandbRun(begun, wandb)


class _WandbRun:
    def __init__(self, begun: Any, module: Any) -> None:
        self._run = begun
        self._module = module
        self._files: dict[str, str] = {}

    def log(self, values: Mapping[str, float], step: int, at_seconds: float) -> None:
        self._run.log({**values, STEP: step})

    def artefact(self, name: str, text: str) -> None:
        self._files[name] = text

    def close(self, once: Mapping[str, float | str]) -> TrackedPlace:
        self._run.summary.update(dict(once))
        with tempfile.TemporaryDirectory() as folder:
            kept = self._module.Artifact(f"candidates-{self._run.id}", type="candidates")
            write_files(self._files, Path(folder))
            kept.add_dir(folder)
            self._run.log_artifact(kept)
            self._run.finish()
        return TrackedPlace(str(Path(self._run.dir).parent), f"wandb sync {Path(self._run.dir).parent}")


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write texts under their names."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
