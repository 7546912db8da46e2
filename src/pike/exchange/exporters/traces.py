"""The traces of a run for training: each paid answer with its prompt, verdict and reward.

Knows what a row holds and what a reward is. Does not know files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike import store
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.events import JournalEntry, QueryAnswered, QuerySent
from pike.core.query import Query
from pike.core.verdict.evaluation import Evaluation, Status
from pike.reporting import ReportedCandidate
from pike.reporting.fold import fold

CORRECT = 0.3
"""What a valid candidate earns beside its speedup (Kevin, arXiv 2507.11948)."""


def reward(verdict: Evaluation | None) -> float | None:
    """0.3 and the speedup for a valid candidate, 0 for a refused one, None without a verdict.

    A verdict of `infra-error` is none: it says nothing about the candidate.
    """
    if verdict is None or verdict.status is Status.INFRA_ERROR:
        return None
    return 0.0 if verdict.speedup is None else CORRECT + verdict.speedup


def traces(folder: Path) -> list[dict[str, Any]]:
    """One row for each answered query of the run in `folder`, in order of the answers.

    Raises:
        UserError: there is no run in `folder`, or no model answered in it.
    """
    entries = tuple(store.read(folder))
    summary = fold(entries, str(folder))
    by_step = {one.step.id: one for one in summary.entrants if one.step is not None}
    common = {
        "task": summary.task.id,
        "original": summary.task.source,
        "device": summary.device.name,
        "strategy": summary.config.strategy.label,
        "imported": summary.imported.tool if summary.imported else None,
    }
    rows = [common | row for row in _rows(entries, by_step)]
    if not rows:
        raise UserError(f"No model answered in the run in {folder}, so that it has no traces to export")
    return rows


def _rows(entries: tuple[JournalEntry, ...], by_step: dict[int, ReportedCandidate]) -> Iterator[dict[str, Any]]:
    sent: dict[int, Query] = {}
    for entry in entries:
        match entry.event:
            case QuerySent(query=query):
                sent[query.step_id] = query
            case QueryAnswered(step_id=step_id, answer=answer) if step_id in sent:
                query, reported = sent[step_id], by_step.get(step_id)
                yield {
                    "step": step_id,
                    "role": query.role.value,
                    "system": query.system,
                    "prompt": query.prompt,
                    "answer": answer.text,
                    "model": answer.model,
                    "finish": answer.finish.value,
                    **{name: getattr(answer, name) for name in ("input_tokens", "output_tokens", "usd")},
                    **_verdict(reported),
                }


def _verdict(reported: ReportedCandidate | None) -> dict[str, Any]:
    """The candidate that an answer brought, as far as it brought one; finals win over the search."""
    verdict = reported.verdict if reported else None
    return {
        "candidate": reported.candidate.id if reported else None,
        "parent": reported.derived_from if reported else None,
        "source": reported.candidate.source if reported else None,
        "status": verdict.status.value if verdict else None,
        "reason": verdict.reason if verdict else None,
        "speedup": verdict.speedup if verdict else None,
        "candidate_ms": encode(verdict.candidate_ms) if verdict else None,
        "measured_again": bool(reported and reported.final),
        "reward": reward(verdict),
    }
