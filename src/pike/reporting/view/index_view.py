"""The page of a folder as plain values: each run in one row, with its trajectory in small.

Knows the columns. Does not know which runs there are.
"""

from collections.abc import Sequence
from typing import Any

from pike.core import figures
from pike.reporting.summary import RunSummary
from pike.reporting.view.run_view import axes, facts, result

MOST_POINTS = 200
"""Rises of a trajectory that an index shows."""


def index_row(name: str, href: str, summary: RunSummary) -> dict[str, Any]:
    """One run in the page of its folder."""
    best = summary.best
    timing = best.verdict.timing if best and best.verdict else None
    error = best.verdict.error if best and best.verdict else None
    improved = best is not None and best.faster
    budget, spend = summary.config.budget, summary.spend
    return {
        "name": name,
        "href": href,
        "task": summary.task.name,
        "state": summary.state.value,
        "strategy": summary.config.strategy.label,
        "model": summary.config.llm.coa,
        "improved": improved,
        "speedup": timing.speedup if timing and improved else 1.0 if timing else None,
        "said": result(summary),
        "facts": facts(summary),
        "interval": figures.interval(timing.speedup_ci95 if timing and improved else None),
        "original": figures.ms(timing.reference_ms if timing else None),
        "best": figures.ms(timing.candidate_ms if timing and improved else None),
        "by": best.candidate.author if best and improved else "",
        "error": figures.error(error.max_abs if error and improved else None),
        "candidates": sum(number for _, number in summary.statuses),
        "refused": sum(number for status, number in summary.statuses if status != "valid"),
        "spent": [spend.queries, budget.queries if summary.config.llm.asks_models else 0, spend.usd, budget.usd],
        "usd": figures.usd(spend.usd),
        "seconds": summary.seconds,
        "time": figures.duration(summary.seconds),
        "started": summary.started_at,
        "when": figures.moment(summary.started_at),
        "device": summary.device.name,
        "flight": len(summary.in_flight),
        "slots": summary.config.engine.concurrency,
        "axes": axes(summary),
        "rises": _rises(summary),
    }


def _rises(summary: RunSummary) -> list[list[float]]:
    """(queries, usd, seconds, best) wherever the best so far rose."""
    found = [[point.queries, point.usd, point.seconds, point.best] for point in summary.rises]
    step = max(1, len(found) // MOST_POINTS)
    return found[::step] + (found[-1:] if found and (len(found) - 1) % step else [])


def index_view(title: str, rows: Sequence[dict[str, Any]], campaigns: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """The page of a folder with these runs, and with the campaigns in it."""
    return {"kind": "index", "title": title, "runs": list(rows), "campaigns": list(campaigns)}
