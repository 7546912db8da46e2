"""What one search from nothing has after ten minutes, to stand beside accumulated winners.

Knows the rows that `benchmarks/anytime.py` writes. A search that was shorter, or whose command was not timed, is no row
here, and what has no row was not measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pike.core import figures
from pike.reporting.results import ResultsTable
from pike.reporting.standings import clamped_geomean

MINUTES = 10.0
COLD = "cold, 10 minutes"
"""The heading of the column."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class ColdSearches:
    """Speedups by (task, device, precision); 1 where a search found nothing that was measured again."""

    speedups: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    def cell(self, found: ResultsTable, task: str) -> str:
        """The speedup on one task of a table."""
        speedup = self._of(found, task)
        return NOT_MEASURED if speedup is None else figures.times(speedup)

    def over(self, found: ResultsTable) -> str:
        """The clamped geomean over the tasks that were measured, and how many they are."""
        known = [one for task in found.tasks if (one := self._of(found, task)) is not None]
        return (
            f"{figures.times(clamped_geomean(known))} ({len(known)} of {len(found.tasks)})" if known else NOT_MEASURED
        )

    def _of(self, found: ResultsTable, task: str) -> float | None:
        return self.speedups.get((task, found.device, found.precision.value))


NO_SEARCHES = ColdSearches()


def read_cold(folder: Path) -> ColdSearches:
    """The rows in all files `anytime*.jsonl` below a folder; of several on one task, the last counts."""
    known: dict[tuple[str, str, str], float] = {}
    for path in sorted(folder.rglob("anytime*.jsonl")):
        for row in map(json.loads, path.read_text().splitlines()):
            if row["began"] == "command" and row["minutes"] == MINUTES:
                known[row["task"], row["device"], row["precision"]] = row["final"] or 1.0
    return ColdSearches(known)
