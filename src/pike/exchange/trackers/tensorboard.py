"""TensorBoard: event files in a folder of their own, written by PyTorch's writer.

Knows `SummaryWriter`. Candidates, parameters and values that are known once become texts.
"""

from collections.abc import Mapping
from typing import Any

from pike.exchange.trackers.tracker import TrackedPlace, TrackedRun


def open(run: TrackedRun) -> "_TensorboardRun":
    """Begin event files, in place of earlier ones of the same run."""
    from torch.utils.tensorboard import SummaryWriter

    folder = (run.out / run.name) if run.out else run.folder / "tensorboard"
    for earlier in folder.glob("events.out.tfevents.*.pike"):
        earlier.unlink()
    writer = SummaryWriter(str(folder), filename_suffix=".pike")
    writer.add_text("parameters", _table(run.parameters))
    return _TensorboardRun(writer, str(folder))


class _TensorboardRun:
    def __init__(self, writer: Any, folder: str) -> None:
        self._writer = writer
        self._folder = folder

    def log(self, values: Mapping[str, float], step: int, at_seconds: float) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step, walltime=at_seconds)
        self._writer.flush()

    def artefact(self, name: str, text: str) -> None:
        fence = "`" * 8
        self._writer.add_text(name, f"{fence}python\n{text}\n{fence}")

    def close(self, once: Mapping[str, float | str]) -> TrackedPlace:
        self._writer.add_text("result", _table(once))
        self._writer.close()
        return TrackedPlace(self._folder, f"tensorboard --logdir {self._folder}")


def _table(values: Mapping[str, float | str]) -> str:
    rows = [f"| {name} | {value} |" for name, value in values.items()]
    return "\n".join(["| name | value |", "| --- | --- |", *rows])
