"""The numbers of a run for trackers: stable names, series by verdict, and values known once.

Knows that a series has at least two points: the first is held back until the second comes. Does not
know any tracker. `docs/reference/exchange.md` has the same names.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pike.core.accounts import Accounts
from pike.core.events import Admitted, JournalEntry, Judged, Proposed
from pike.core.step import Candidate
from pike.core.verdict.evaluation import Effort, Evaluation
from pike.reporting import RunSummary


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """Values of series at one step."""

    step: int
    at_seconds: float
    values: Mapping[str, float]


@dataclass(slots=True)
class Metrics:
    """The fold of a journal into points and the candidates to keep."""

    accounts: Accounts = field(default_factory=Accounts)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    _held: dict[str, MetricPoint | None] = field(default_factory=dict)
    _began: float | None = None
    _judged: int = 0
    _valid: int = 0
    _best: Evaluation | None = None

    def take(self, entry: JournalEntry) -> tuple[MetricPoint, ...]:
        """Take one entry; gives the points that it completes, those held back before first."""
        self._began = entry.at_seconds if self._began is None else self._began
        self.accounts.apply(entry.event)
        match entry.event:
            case Proposed(candidate=candidate):
                self.candidates[candidate.id] = candidate
            case Admitted(candidate=candidate, evaluation=evaluation):
                self.candidates[candidate.id] = candidate
                return tuple(self._released(self._point(evaluation, entry.at_seconds)))
            case Judged(evaluation=evaluation, effort=Effort.SEARCH):
                return tuple(self._released(self._point(evaluation, entry.at_seconds)))
        return ()

    def single(self) -> dict[str, float]:
        """The values of series that have one point only, and so are none."""
        return {name: point.values[name] for name, point in self._held.items() if point is not None}

    def _point(self, evaluation: Evaluation, at_seconds: float) -> MetricPoint:
        self._judged += 1
        self._valid += evaluation.valid
        if (evaluation.speedup or 0.0) > ((self._best.speedup if self._best else None) or 0.0):
            self._best = evaluation
        spend, best = self.accounts.spend, self._best
        values = {
            "speedup/candidate": evaluation.speedup,
            "speedup/best": best.speedup if best else None,
            "ms/candidate": evaluation.candidate_ms,
            "ms/best": best.candidate_ms if best else None,
            "count/valid": self._valid,
            "spend/queries": spend.queries,
            "spend/tokens": spend.tokens,
            "spend/usd": spend.usd,
            "time/seconds": at_seconds - (self._began or at_seconds),
        }
        known = {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
        return MetricPoint(self._judged, at_seconds, known)

    def _released(self, point: MetricPoint) -> Iterator[MetricPoint]:
        now = {}
        for name, value in point.values.items():
            if name not in self._held:
                self._held[name] = MetricPoint(point.step, point.at_seconds, {name: value})
                continue
            if (held := self._held[name]) is not None:
                self._held[name] = None
                yield held
            now[name] = value
        if now:
            yield MetricPoint(point.step, point.at_seconds, now)


def once(summary: RunSummary) -> dict[str, float | str]:
    """The values of a run that are no series."""
    best = summary.best
    timing = best.verdict.timing if best and best.verdict else None
    values: dict[str, float | str] = {"final/state": summary.state.value}
    if best is not None and timing is not None:
        low, high = timing.speedup_ci95
        numbers = {
            "final/speedup": timing.speedup if best.faster else 1.0,
            "final/speedup_low": low if best.faster else math.nan,
            "final/speedup_high": high if best.faster else math.nan,
            "final/ms": timing.candidate_ms if best.faster else timing.reference_ms,
            "final/original_ms": timing.reference_ms,
        }
        values |= {name: number for name, number in numbers.items() if math.isfinite(number)}
        values["final/best"] = best.candidate.id if best.faster else "original"
    values["count/judged"] = float(sum(count for _, count in summary.statuses))
    return values | {f"status/{status.value}": float(count) for status, count in summary.statuses}


def parameters(summary: RunSummary) -> dict[str, str]:
    """What decided the run, as text."""
    config = summary.config
    coa = config.llm.coa if isinstance(config.llm.coa, str) else ", ".join(config.llm.coa)
    return {
        "task": summary.task.id,
        "strategy": config.strategy.label,
        "model": coa,
        "queries": str(config.budget.queries),
        "run_seed": str(config.engine.run_seed),
        "tolerance": config.evaluate.tolerance.value,
        "precision": config.evaluate.precision.value,
        "device": summary.device.name,
        "pike_version": summary.pike_version,
        "imported": summary.imported.tool if summary.imported else "",
    }
