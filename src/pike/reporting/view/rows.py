"""One row for each candidate, and for each step that brought none, in the list of a run's page.

Knows which figures a row has. Does not know the page around the list (`run_view`) or what is
loaded on request (`details`).
"""

from typing import Any

from pike.core.step import Role, Step
from pike.reporting.summary import ReportedCandidate, RunSummary

NOTHING_CAME = "nothing came"
"""The status of a step that failed before there was a candidate."""
NO_VERDICT = "no verdict yet"


def rows(summary: RunSummary) -> list[dict[str, Any]]:
    """The rows in order of appearance: candidates, then steps without one."""
    reasons = {step.id: why for step, why in summary.failures}
    found = [candidate_row(entrant) for entrant in summary.entrants]
    return found + [_barren(step, reasons.get(step.id, ""), summary) for step in summary.barren]


def candidate_row(entrant: ReportedCandidate) -> dict[str, Any]:
    """The row of one candidate; what is missing or empty is left out."""
    candidate, verdict, step = entrant.candidate, entrant.verdict, entrant.step
    timing = verdict.timing if verdict else None
    error = verdict.error if verdict else None
    return _filled(
        {
            "id": candidate.id,
            "parent": entrant.derived_from,
            "by": candidate.author,
            "note": candidate.note,
            "recipes": " + ".join(candidate.recipes),
            "status": verdict.status.value if verdict else NO_VERDICT,
            "reason": verdict.reason if verdict else "",
            "ms": timing.candidate_ms if timing else None,
            "speedup": timing.speedup if timing else None,
            "ci": list(timing.speedup_ci95) if timing else None,
            "faster": timing is not None and timing.faster,
            "searched": entrant.search.speedup if entrant.search else None,
            "error": error.max_abs if error else None,
            "allowed": error.budget_max_abs if error else None,
            "final": entrant.final is not None,
            "at": [entrant.at.queries, entrant.at.usd, entrant.at.seconds] if entrant.at else None,
            **(_of_step(step) if step else {}),
        }
    )


def _barren(step: Step, why: str, summary: RunSummary) -> dict[str, Any]:
    said = "brought a plan"
    if step.role is Role.BRAINSTORM:
        said = f"brought {len(summary.ideas)} ideas"
    row = {"id": f"step {step.id}", "parent": step.failing or step.seed, **_of_step(step)}
    status = NOTHING_CAME if why else "ideas" if step.role is Role.BRAINSTORM else "plan"
    return _filled({**row, "status": status, "reason": why or said, "barren": True})


def _of_step(step: Step) -> dict[str, Any]:
    place = f"{step.round}.{step.sample}" + (f" fix {step.attempt}" if step.attempt else "")
    return {"step": step.id, "role": step.role.value, "round": place, "idea": step.idea or ""}


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value not in (None, "", False)}
