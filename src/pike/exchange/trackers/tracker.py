"""What every tracker does, and what it is told about a run before the first number.

Knows the protocol. Does not know any tracker or number (`metrics`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROJECT = "pike"
"""The project, or experiment, under which trackers list runs of PIKE."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as a tracker lists it.

    Attributes:
        name: the name for people.
        key: the same for every export of one journal; an export replaces an earlier one of it.
        folder: the run's folder.
        out: where the tracker's local store goes, None for its usual place.
        parameters: what decided the run.
    """

    name: str
    key: str
    folder: Path
    out: Path | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrackedPlace:
    """Where a tracked run can be seen: the store's address, and the command that shows it."""

    address: str
    command: str


class Tracker(Protocol):
    """One run in the store of a tracker."""

    def log(self, values: Mapping[str, float], step: int, at_seconds: float) -> None:
        """Add points to series; steps may come out of order."""

    def artefact(self, name: str, text: str) -> None:
        """Keep a text file, for example `candidates/c3.py`."""

    def close(self, once: Mapping[str, float | str]) -> TrackedPlace:
        """Take the values that are no series and finish."""
