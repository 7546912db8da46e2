"""What each composition of recipes brought, in the order in which verdicts came.

Knows candidates with their verdicts, and the remarks of the recipe agent. Does not know recipes,
journals or tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pike.core.step import Candidate
from pike.core.verdict.evaluation import Evaluation, Status


@dataclass(frozen=True, slots=True)
class TriedComposition:
    """One composition that was judged.

    Attributes:
        candidate_id: its candidate.
        recipes: the names of its recipes, in order.
        status: its verdict in the search.
        speedup: its speedup in the search, None unless valid.
        gained: how many times faster it was than the best before it (at first the original), where
            it was faster; else None.
        reason: why it was refused, empty where it was not.
        seconds: what judging it took, without waits; 0 in records of older versions.
        cold_start_seconds: the part of them until its first answers; None if it gave none.
    """

    candidate_id: str
    recipes: tuple[str, ...]
    status: Status
    speedup: float | None
    gained: float | None
    reason: str
    seconds: float = 0.0
    cold_start_seconds: float | None = None


def recipe_history(judged: Iterable[tuple[Candidate, Evaluation]]) -> tuple[TriedComposition, ...]:
    """What was tried; candidates that are no compositions of recipes only raise the best.

    Args:
        judged: candidates with their search verdicts, in order of the verdicts.
    """
    best, found = 1.0, []
    for candidate, verdict in judged:
        speedup = verdict.speedup
        gained = speedup / best if speedup is not None and speedup > best else None
        best = max(best, speedup or 0.0)
        if candidate.recipes:
            said = candidate.id, candidate.recipes, verdict.status, speedup, gained, verdict.reason.strip()
            found.append(TriedComposition(*said, round(verdict.own_seconds, 3), verdict.cold_start_seconds))
    return tuple(found)


def declined(remarks: str) -> tuple[tuple[str, str], ...]:
    """(recipe, why it does not apply) pairs from what the recipe agent said beside its ideas."""
    lines = (line.partition(": ") for line in remarks.splitlines())
    return tuple((name, reason) for name, found, reason in lines if found)
