"""The answers of the tools, as JSON-ready mappings.

Knows which facts of a run an agent needs to decide. Does not know where they come from (`api`) or
how they are sent (`tools`). Texts that a candidate may have written stay in fields of their own.
"""

from pathlib import Path
from typing import Any

from pike.api.external import ExternalStatus, MoveReply
from pike.api.views import ReportedCandidate, RunResult, RunSummary
from pike.core import figures
from pike.core.task import Task

BEST = 5
"""How many of the best candidates a task is read with."""


def task_row(task: Task) -> dict[str, Any]:
    """A task in a list."""
    return {"task": task.id, "name": task.name}


def run_row(name: str, summary: RunSummary) -> dict[str, Any]:
    """A run in a list."""
    best = summary.best
    return {
        "run": name,
        "task": summary.task.id,
        "state": summary.state.value,
        "stopped": summary.stop_reason,
        "strategy": summary.config.strategy.preset,
        "queries": f"{summary.spend.queries} of {summary.config.budget.queries}",
        "best_speedup": best.speedup if best else None,
    }


def terms(summary: RunSummary) -> dict[str, Any]:
    """How a run judges."""
    options = summary.config.evaluate
    return {
        "device": summary.device.name,
        "precision": options.precision.value,
        "tolerance": options.tolerance.value,
        "time_limit_seconds": options.timeout_seconds,
    }


def candidate_row(entrant: ReportedCandidate) -> dict[str, Any]:
    """A candidate in a list."""
    verdict = entrant.verdict
    return {
        "candidate": entrant.candidate.id,
        "parent": entrant.derived_from,
        "status": verdict.status.value if verdict else "not judged yet",
        "speedup": verdict.speedup if verdict else None,
        "measured_again": entrant.final is not None,
        "author": entrant.candidate.author,
        "note": entrant.candidate.note,
    }


def best_rows(summary: RunSummary) -> list[dict[str, Any]]:
    """The fastest valid candidates."""
    valid = [entrant for entrant in summary.entrants if entrant.verdict and entrant.verdict.valid]
    return [candidate_row(entrant) for entrant in sorted(valid, key=lambda each: -each.speedup)[:BEST]]


def candidate(entrant: ReportedCandidate) -> dict[str, Any]:
    """A candidate with its file and its verdict."""
    verdict = entrant.verdict
    return {
        **candidate_row(entrant),
        "warning": figures.disturbance(verdict) or None,
        "source": entrant.candidate.source,
        "evaluation": verdict.flat() if verdict else None,
    }


def budget(status: ExternalStatus) -> dict[str, Any]:
    """What was spent and what is left; a prompt that waits for an answer counts as asked."""
    spend, limit, best = status.spend, status.budget, status.best
    return {
        "queries_left": status.left,
        "queries_asked": spend.queries,
        "query_budget": limit.queries,
        "prompts_out": [step.id for step in status.waiting],
        "usd_spent": spend.usd,
        "usd_budget": limit.usd,
        "tokens_spent": spend.tokens,
        "token_budget": limit.tokens,
        "calls_of_unknown_price": spend.unpriced,
        "finished": status.result.finished,
        "best": best.candidate.id if best else None,
        "best_speedup": best.evaluation.speedup if best else None,
        "reported_speedup": status.result.speedup if status.result.finished else None,
    }


def outcome(result: RunResult) -> dict[str, Any]:
    """What a finished run found, one sentence first."""
    return {
        "summary": result.sentence,
        "warning": figures.disturbance(result.evaluation) or None,
        "improved": result.improved,
        "speedup": result.speedup,
        "best_file": str(result.best_path) if result.best_path else None,
        "page": str(Path(result.folder) / "report.html"),
        "notes": list(result.notes),
    }


def without_nulls(value: Any) -> Any:
    """The same without what is not known: a reader takes a null for a fact."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def reply(told: MoveReply) -> dict[str, Any]:
    """What became of an answer, one sentence first."""
    solution, result = told.solution, told.status.result
    new_best = solution is not None and solution == told.status.best
    return {
        "summary": told.sentence,
        "warning": figures.disturbance(solution.evaluation if solution else None) or None,
        "result": outcome(result) if result.finished else None,
        "candidate": solution.candidate.id if solution else None,
        "parent": solution.candidate.parent if solution else None,
        "known": told.known,
        "best_so_far": new_best,
        "evaluation": solution.evaluation.flat() if solution else None,
        "ideas": list(told.ideas),
        "failure": told.failure,
        "budget": budget(told.status),
    }
