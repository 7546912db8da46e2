"""What earlier searches over recipes tried and found, kept as one JSON line for each search.

Knows which compositions they speak for or against. Does not know recipes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result, digest
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Precision
from pike.store import json_lines

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecipeHistory:
    """One search over recipes.

    Attributes:
        task: the task's id.
        precision: the declared arithmetic.
        tried: each composition with its speedup, None if it was refused; failures of the judge are
            left out.
        best: the winning file, empty if the original stayed.
    """

    task: str
    precision: Precision
    tried: tuple[tuple[Names, float | None], ...]
    best: str

    @property
    def fastest(self) -> Names:
        """The fastest composition, empty if all were refused."""
        return max(self.tried, key=lambda one: one[1] or 0.0, default=((), None))[0]

    @property
    def speeds(self) -> dict[Names, float]:
        """The speedup of each composition; 0 if it was refused, be it as a finalist."""
        return {names: (speedup or 0.0) if self.best else 0.0 for names, speedup in self.tried}


@dataclass(frozen=True, slots=True)
class Histories:
    """Searches of earlier runs, by task and precision."""

    searches: Mapping[tuple[str, Precision], Sequence[RecipeHistory]] = field(default_factory=dict)
    dates: Mapping[tuple[str, Precision, str], str] = field(default_factory=dict)
    """When the winner of that digest was measured last, on whatever device."""

    @classmethod
    def read(cls, paths: Iterable[Path], results: Iterable[Result] = ()) -> Histories:
        """The histories in files, or in all `.jsonl` files of folders; other lines are passed over.

        Args:
            paths: files and folders.
            results: of several searches on one task, that one counts whose winner has the newest of
                these.

        Raises:
            UserError: a path does not exist, or a file cannot be read.
        """
        found: dict[tuple[str, Precision], list[RecipeHistory]] = {}
        for history in (one for path in paths for file in _files(path) for one in _histories(file)):
            found.setdefault((history.task, history.precision), []).append(history)
        dates = {
            (one.task, one.precision, one.candidate_digest): one.provenance.date
            for one in sorted(results, key=lambda one: one.provenance.date)
            if one.contender.kind is ContenderKind.RECIPES and one.settled
        }
        return cls(found, dates)

    def winner(self, task: str, precision: Precision) -> RecipeHistory | None:
        """The search whose winner was measured last, else that with the fastest; may be None."""

        def worth(history: RecipeHistory) -> tuple[str, float]:
            date = self.dates.get((task, precision, digest(history.best)), "") if history.best else ""
            return date, max(history.speeds.values(), default=0.0)

        return max(self.searches.get((task, precision), ()), key=worth, default=None)

    def tried(self, task: str, precision: Precision) -> dict[Names, float]:
        """Each composition that was tried with its last speedup, 0 if it was refused."""
        return {
            names: speed
            for history in self.searches.get((task, precision), ())
            for names, speed in history.speeds.items()
        }

    def best_before(self, task: str, precision: Precision) -> Names:
        """The fastest composition at this precision, else at a stricter one, else none."""
        stricter = list(Precision)[: list(Precision).index(precision)]  # they stand in this order
        looser = {names: speed for one in stricter for names, speed in self.tried(task, one).items()}
        for known in (self.tried(task, precision), looser):
            names, speed = max(known.items(), key=lambda one: one[1], default=((), 0.0))
            if speed:
                return names
        return ()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.jsonl*"))
    if not path.is_file():
        raise UserError(f"There is no file or folder {path} with histories of recipes")
    return [path]


def _histories(path: Path) -> Iterator[RecipeHistory]:
    for found in json_lines(path):
        if "trail" in found and "best" in found:
            yield _history(found)


def _history(found: Mapping[str, Any]) -> RecipeHistory:
    tried = tuple(
        (tuple(one["recipes"]), one.get("speedup")) for one in found["trail"] if one.get("status") != "infra-error"
    )
    return RecipeHistory(found["task"], Precision(found["precision"]), tried, found["best"])
