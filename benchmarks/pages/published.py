"""Figures that others published, to stand beside ours.

Knows two kinds of CSV files: geometric means of suites (`geomeans.csv`) and times of single tasks
(`SUITE-MACHINE.csv`). Comment lines in them name the source. Does not know our own figures.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from pike.core.errors import UserError
from pike.reporting.standings import clamped_geomean, unclamped_geomean

_EAGER = "eager_ms"
OTHER_ARITHMETIC = """**Not side by side.** On some tasks the shipped suites compute something else than the published
ones, so ours and published figures do not compare there: on 8 of the 14 tasks of `level5` (1, 3,
4, 6, 8, 10, 12 and 14: other attention, no prefill, fewer copies), and on 49 and 50 of
`level3-pike`. Each file says how it differs. `pike suites add published CHECKOUT` registers the
published tasks themselves, as `level3-pike:published` and `level5:published`."""
"""What stands beside the published figures on the first page of results."""
SEE_OTHER_ARITHMETIC = """**Not side by side.** On some tasks ours and published figures do not compare:
[the first page of results](index.md) says on which, and why."""
"""What stands wherever else both can be read together."""


NOT_COMPARED = {"level3-pike/49", "level3-pike/50"}
"""The tasks among them whose own times stand beside times of eager on the published ones, by suite and number."""


@dataclass(frozen=True, slots=True)
class PublishedGeomean:
    """One line of a published table.

    Attributes:
        suite: of tasks.
        contender: who.
        clamped: the geomean that counts slower and missing ones as 1.
        source: where it stands.
    """

    suite: str
    contender: str
    clamped: float
    source: str


@dataclass(frozen=True, slots=True)
class PublishedTimes:
    """Times of single tasks on one machine.

    Attributes:
        suite: whose tasks.
        machine: the kind of device, as the file's name has it.
        about: where the figures come from, one line each.
        contenders: the columns beside eager, without their unit.
        rows: (task, times in the order of `eager` and `contenders`; a word in place of a time says
            what happened).
    """

    suite: str
    machine: str
    about: tuple[str, ...]
    contenders: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | str, ...]], ...]

    def is_of(self, device: str) -> bool:
        """Whether a device of this name is of that kind."""
        return self.machine.lower() in device.lower().split()

    def eager_ms(self, task: str) -> float | None:
        """Of the task with this stem, for example `9_ResNet18`."""
        found = dict(self.rows).get(task)
        return found[0] if found and isinstance(found[0], float) else None

    def speedup(self, task: str, contender: str) -> float | str:
        """Over eager; a word where there is none."""
        times = dict(self.rows).get(task)
        if times is None:
            return ""
        eager, other = times[0], times[1 + self.contenders.index(contender)]
        return eager / other if isinstance(eager, float) and isinstance(other, float) else str(other)

    def geomeans(self, contender: str) -> tuple[float, float | None, int]:
        """The clamped and the unclamped geomean over all tasks, and how many tasks have a time."""
        found = [self.speedup(task, contender) for task, _ in self.rows]
        speedups = [one if isinstance(one, float) else None for one in found]
        return clamped_geomean(speedups), unclamped_geomean(speedups), sum(one is not None for one in speedups)


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """Everything in one folder."""

    geomeans: tuple[PublishedGeomean, ...] = ()
    times: tuple[PublishedTimes, ...] = ()

    def times_of(self, suite: str) -> PublishedTimes | None:
        """The times of a suite's tasks."""
        return next((times for times in self.times if times.suite == suite), None)


def read_published(folder: Path, suites: tuple[str, ...]) -> PublishedFigures:
    """The published figures in `folder`.

    Args:
        folder: with `geomeans.csv` and any number of `SUITE-MACHINE.csv`.
        suites: the suites that files of times may be about.

    Raises:
        UserError: a file is missing or has another form.
    """
    try:
        lines = _table(folder / "geomeans.csv")[1]
        geomeans = tuple(
            PublishedGeomean(line["suite"], line["contender"], float(line["clamped"]), line["source"]) for line in lines
        )
        files = [(suite, path) for suite in suites for path in sorted(folder.glob(f"{suite}-*.csv"))]
        return PublishedFigures(geomeans, tuple(_times(suite, path) for suite, path in files))
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"The published figures in {folder} cannot be read: {error}") from error


def _times(suite: str, path: Path) -> PublishedTimes:
    about, lines = _table(path)
    columns = [name for name in lines[0] if name not in ("task", _EAGER)]
    rows = tuple((line["task"], tuple(_time(line[name]) for name in [_EAGER, *columns])) for line in lines)
    return PublishedTimes(
        suite, path.stem.removeprefix(f"{suite}-"), about, tuple(name.removesuffix("_ms") for name in columns), rows
    )


def _time(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text or "not run"


def _table(path: Path) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    about = tuple(line.lstrip("# ") for line in lines if line.startswith("#"))
    return about, list(csv.DictReader(line for line in lines if not line.startswith("#")))
