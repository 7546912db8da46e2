"""Trackio: a run of the project `pike` in its local store, or where `TRACKIO_DIR` says.

Knows its client. A run has no summary, so values that are known once become the metadata of
its artefact and the file `result.tsv` in it.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike.exchange.trackers.tracker import PROJECT, TrackedPlace, TrackedRun
from pike.exchange.trackers.wandb import write_files


def open(run: TrackedRun) -> "_TrackioRun":
    """Begin a run; each export is a run of its own, called by the journal's key."""
    folder = run.out or Path(os.environ.get("TRACKIO_DIR") or run.folder / "trackio")
    os.environ["TRACKIO_DIR"] = str(folder.resolve())  # read when the package is imported
    import trackio

    begun = trackio.init(
        project=PROJECT,
        name=f"{run.name}-{run.key}",
        config=dict(run.parameters),
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return _TrackioRun(begun, trackio, folder, run.key)


class _TrackioRun:
    def __init__(self, begun: Any, module: Any, folder: Path, key: str) -> None:
        self._run = begun
        self._module = module
        self._folder = folder
        self._key = key
        self._files: dict[str, str] = {}

    def log(self, values: Mapping[str, float], step: int, at_seconds: float) -> None:
        self._run.log(dict(values), step=step)

    def artefact(self, name: str, text: str) -> None:
        self._files[name] = text

    def close(self, once: Mapping[str, float | str]) -> TrackedPlace:
        rows = "".join(f"{name}\t{value}\n" for name, value in once.items())
        with tempfile.TemporaryDirectory() as folder:
            write_files({**self._files, "result.tsv": rows}, Path(folder))
            kept = self._module.Artifact(f"candidates-{self._key}", type="candidates", metadata=dict(once))
            kept.add_dir(folder)
            self._module.log_artifact(kept)
            self._module.finish()
        return TrackedPlace(str(self._folder), f"TRACKIO_DIR={self._folder} trackio show --project {PROJECT}")
