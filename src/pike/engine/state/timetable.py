"""How a run's limit of time is divided between its search and its finalists.

Knows the limit, the clock of the run and what its verdicts took. Does not know steps (`loop`) or
how finalists are chosen (`finalists`).
"""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import FIRST_CALL, EvaluateOptions, Evaluation, Stage
from pike.engine.state.run_state import RunState

FINAL_OVERHEAD = 1.3
"""What a final timing takes beyond its limit: 20.1 to 28.2 s for 20 s on an H100
(docs/experiments/2026-11-24-h100-waiting-for-the-lock.md)."""
_BUSY_OVERHEAD = 9.0
"""The same while other programs disturb the times. All sessions then use up their patience: four
limits for the latency, as much for input distributions, and one for the throughput."""
_FINAL_CHECKS = 3.0
"""How many times as long a finalist is checked as a candidate of the search."""
_START_SECONDS = 10.0
"""A judge that was stopped with its candidate starts anew and prepares the task."""
_UNKNOWN_SECONDS = 15.0
"""Building and checking a finalist, before any verdict tells."""
_MOST_KEPT = 1 / 3
"""The most that is kept for the finalists, as a part of the limit."""
PATIENCE_SECONDS, LATEST_SECONDS = 30.0, 45.0
"""So long after the limit a search without a valid candidate gives up, and the last finalist
ends."""
_LEAST_TIMING_SECONDS = 3.0


class Timetable:
    """When a run stops searching, and how long its finalists may take."""

    def __init__(self, state: RunState, elapsed_seconds: Callable[[], float]) -> None:
        self._state = state
        self._elapsed_seconds = elapsed_seconds

    @property
    def search_seconds_left(self) -> float | None:
        """Seconds until the search stops asking, None without a limit."""
        return self._left(-kept_seconds(self._state))

    @property
    def patience_seconds_left(self) -> float | None:
        """Seconds until free candidates are given up although none is valid yet."""
        return self._left(PATIENCE_SECONDS)

    @property
    def final_seconds_left(self) -> float | None:
        """Seconds until no finalist but the first is measured; None where there is time for all.

        A run that asks models is not hurried, because what it found was paid for.
        """
        return None if self._state.config.llm.asks_models else self._left(LATEST_SECONDS)

    def _left(self, after_limit: float) -> float | None:
        limit = limit_seconds(self._state.config.engine)
        return None if limit is None else max(0.0, limit + after_limit - self._elapsed_seconds())

    def final_plan(self, waiting: int) -> tuple[int, EvaluateOptions]:
        """How many of the finalists that wait are measured next, 0 where the time is over, and how.

        All are timed more briefly where the time is short, or fewer where it is very short.
        """
        options, left = self._state.config.evaluate, self.final_seconds_left
        if left is None:
            return waiting, options
        left, build, least = left - _START_SECONDS, _build_seconds(self._state), _LEAST_TIMING_SECONDS
        spans = {count: _timing_spans(self._state, count) for count in range(waiting, 0, -1)}
        count = next((count for count, span in spans.items() if left >= count * build + span * least), 0)
        seconds = (left - count * build) / spans[count] if count else least
        return count, replace(options, max_timing_seconds=min(options.max_timing_seconds, seconds))


def limit_seconds(engine: EngineConfig) -> float | None:
    """A run's limit of time, None without one."""
    return None if engine.max_hours is None else 3600.0 * engine.max_hours


def kept_seconds(state: RunState) -> float:
    """What is kept for the finalists, by what the verdicts so far took; 0 without a limit."""
    limit = limit_seconds(state.config.engine)
    if limit is None:
        return 0.0
    count = max(1, state.config.engine.finalists)
    timing = _timing_spans(state, count) * state.config.evaluate.max_timing_seconds
    return min(_START_SECONDS + count * _build_seconds(state) + timing, _MOST_KEPT * limit)


def _timing_spans(state: RunState, count: int) -> float:
    """How long so many finalists are timed together, as a multiple of the limit for one."""
    valid = [one.evaluation for one in state.solutions.values() if one.evaluation.valid]
    busy = 2 * sum(evaluation.disturbed for evaluation in valid) > len(valid)
    return (_BUSY_OVERHEAD if busy else FINAL_OVERHEAD) * (1.0 + count) / 2.0


def _build_seconds(state: RunState) -> float:
    valid = [_unclocked_seconds(one.evaluation) for one in state.solutions.values() if one.evaluation.valid]
    return median(valid) if valid else _UNKNOWN_SECONDS


def _unclocked_seconds(verdict: Evaluation) -> float:
    """What a candidate takes as a finalist beside the timing, by its verdict in the search."""
    seconds = dict(verdict.seconds)
    first = seconds.get(FIRST_CALL, 0.0)
    searched = verdict.own_seconds - seconds.get(Stage.TIME.value, 0.0) - seconds.get(Stage.PROFILE.value, 0.0)
    return first + _FINAL_CHECKS * max(0.0, searched - first)
