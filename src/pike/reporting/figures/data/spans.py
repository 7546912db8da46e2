"""What a run worked on, and when, from the times of its journal's entries.

Knows that a verdict lists the seconds of its stages, and that they end when it is written. Does not
know the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pike.core.events import Event, JournalEntry, Judged, Proposed, QueryAnswered, QueryFailed, QuerySent, Resumed
from pike.core.verdict.evaluation import FIRST_CALL, LOCK_WAIT, SET_UP, Evaluation, Stage
from pike.reporting.figures.data.records import Work, WorkSpan

_WORK = {
    SET_UP: Work.BUILDING,
    Stage.PARSE.value: Work.CHECKING,
    Stage.BUILD.value: Work.BUILDING,
    Stage.LOAD.value: Work.BUILDING,
    Stage.CORRECT.value: Work.CHECKING,
    Stage.RECHECK.value: Work.CHECKING,
    Stage.TIME.value: Work.TIMING,
    Stage.PROFILE.value: Work.TIMING,
    LOCK_WAIT: Work.WAITING,
}
_ON_DEVICE = {Stage.TIME.value, Stage.PROFILE.value}


class Spans:
    """The spans of one run, gathered while its journal is read."""

    def __init__(self) -> None:
        self.found: list[WorkSpan] = []
        self._asked: dict[tuple[int, int], float] = {}
        self._proposed: dict[str, float] = {}

    def take(self, event: Event, now: float) -> None:
        """Take an event; `now` is the run's own time."""
        match event:
            case QuerySent(query=query, attempt=attempt):
                self._asked[query.step_id, attempt] = now
            case QueryAnswered(step_id=step_id, attempt=attempt) | QueryFailed(step_id=step_id, attempt=attempt):
                begin = self._asked.pop((step_id, attempt), now)
                self.found.append(WorkSpan(Work.ASKING, begin, now))
            case Proposed(candidate=candidate):
                self._proposed[candidate.id] = now
            case Judged(candidate_id=candidate_id, evaluation=evaluation):
                self.found += _judging(evaluation, self._proposed.pop(candidate_id, None), now)
            case Resumed():
                self._asked.clear()
                self._proposed.clear()


def _judging(evaluation: Evaluation, begin: float | None, end: float) -> Sequence[WorkSpan]:
    """The stages of a verdict, laid backwards from its end; what is left before them was waiting."""
    found, at = [], end
    for name, seconds in reversed(evaluation.seconds):
        if name == FIRST_CALL or name not in _WORK:
            continue
        first = at - seconds if begin is None else max(begin, at - seconds)
        if at > first:
            found.append(WorkSpan(_WORK[name], max(0.0, first), at, name in _ON_DEVICE))
        at = first
    if begin is not None and at > begin:
        found.append(WorkSpan(Work.WAITING, begin, at))
    return found


def own_times(entries: Sequence[JournalEntry]) -> list[float]:
    """Seconds from the run's begin to each entry, the pauses between processes left out."""
    now, times = 0.0, [0.0] if entries else []
    for before, entry in pairwise(entries):
        if not isinstance(entry.event, Resumed):
            now += max(0.0, entry.at_seconds - before.at_seconds)
        times.append(now)
    return times
