"""What each recipe contributed to the searches of a suite: what it won, and what it cost.

Knows the histories that a suite keeps. Does not know recipes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.comparison.contender import ContenderKind
from pike.core.verdict.evaluation import Status
from pike.reporting.results import ResultsTable
from pike.store import json_lines

HISTORIES = "histories-*.jsonl"


@dataclass(frozen=True, slots=True)
class Contribution:
    """One recipe in many searches.

    Attributes:
        recipe: its name.
        won: winners that contain it.
        valid: compositions with it that were right.
        refused: compositions with it that were not.
        declined: searches in which it did not apply.
        seconds: what judging took; a composition's time is shared equally among its recipes.
    """

    recipe: str
    won: int
    valid: int
    refused: int
    declined: int
    seconds: float


def histories_in(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """The last history of each task and precision in a suite's folder.

    Raises:
        UserError: a file cannot be read.
    """
    lines = (line for path in sorted(folder.glob(HISTORIES)) for line in json_lines(path))
    return tuple({(line["task"], line["precision"]): line for line in lines if "trail" in line}.values())


def contributions(histories: Iterable[Mapping[str, Any]], table: ResultsTable) -> tuple[Contribution, ...]:
    """What each recipe contributed on the tasks of a table; those that won most come first."""
    searches = (one for one in table.cells.values() if one.contender.kind is ContenderKind.RECIPES)
    won = Counter(name for one in searches for name in one.recipes)
    valid: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    declined: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for history in histories:
        if history["task"] not in table.tasks or history["precision"] != table.precision.value:
            continue
        declined.update(history.get("declined", {}).keys())
        for one in history["trail"]:
            if one["status"] != Status.INFRA_ERROR.value:
                (refused if one["speedup"] is None else valid).update(one["recipes"])
            for name in one["recipes"]:
                seconds[name] += one.get("seconds", 0.0) / len(one["recipes"])
    found = [
        Contribution(name, won[name], valid[name], refused[name], declined[name], float(seconds[name]))
        for name in won.keys() | valid.keys() | refused.keys() | declined.keys()
    ]
    return tuple(sorted(found, key=lambda share: (-share.won, -share.valid, share.recipe)))
