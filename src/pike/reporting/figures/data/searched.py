"""One search as a record, from its journal.

Knows which entries make an attempt. Does not know campaigns or suites (`reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.events import Compared, JournalEntry, QueryAnswered, QuerySent, RunStarted
from pike.core.query import Answer
from pike.core.step import ORIGINAL
from pike.reporting.figures.data.code_facts import facts
from pike.reporting.figures.data.embeddings import Embeddings
from pike.reporting.figures.data.records import OUTSIDE, Attempt, CodeFacts, DrawnCell, Rise, SearchRecord
from pike.reporting.figures.data.spans import Spans, own_times
from pike.reporting.fold import fold
from pike.reporting.summary import ReportedCandidate, RunSummary
from pike.store import read


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """What of a journal is read.

    Attributes:
        with_code: also facts about the candidates' sources.
        islands: the island of each candidate of a run, which only a repetition of the search tells.
        embeddings: tells how alike sources are in meaning, None for nobody.
    """

    with_code: bool = True
    embeddings: Embeddings | None = None
    islands: Callable[[Path], Mapping[str, int]] = lambda _: {}


def searched(folder: Path, wanted: WantedFacts) -> DrawnCell:
    """The run in `folder`, which may still go on, as if it stood alone.

    Raises:
        UserError: there is no run, or it has not begun.
        StoreError: its journal cannot be read.
    """
    entries = list(read(folder, without_texts=(QuerySent, QueryAnswered)))
    summary = fold(entries, str(folder))
    verdict = summary.best.verdict if summary.best else None
    return DrawnCell(
        task=summary.task.id,
        contender=_contender(summary),
        repeat=0,
        speedup=verdict.speedup if verdict else None,
        search=_record(summary, entries, wanted, wanted.islands(folder)),
    )


def _contender(summary: RunSummary) -> str:
    """The strategy, or recipes where no model was asked; of an imported run what its tool calls it."""
    if summary.imported:
        return summary.config.strategy.label
    return summary.config.strategy.preset if summary.config.llm.asks_models else "recipes"


def _record(
    summary: RunSummary, entries: list[JournalEntry], wanted: WantedFacts, islands: Mapping[str, int]
) -> SearchRecord:
    spans = Spans()
    for entry, now in zip(entries, own_times(entries), strict=True):
        spans.take(entry.event, now)
    started = next(entry.event for entry in entries if isinstance(entry.event, RunStarted))
    compared = [entry.event for entry in entries if isinstance(entry.event, Compared)]
    attempts = _attempts(summary, entries, wanted)
    return SearchRecord(
        rises=tuple(Rise(one.queries, one.usd, one.seconds / 60.0, one.best) for one in summary.rises),
        ended=Rise(summary.spend.queries, summary.spend.usd, summary.seconds / 60.0, 0.0),
        attempts=tuple(replace(one, island=islands.get(one.id)) for one in attempts),
        spans=tuple(spans.found),
        best=summary.best.candidate.id if summary.best else "",
        original_ms=started.original_ms,
        original_profile=started.original_profile,
        baselines={event.baseline: event.evaluation.speedup for event in compared},
    )


def _attempts(summary: RunSummary, entries: list[JournalEntry], wanted: WantedFacts) -> list[Attempt]:
    answered = [entry.event for entry in entries if isinstance(entry.event, QueryAnswered)]
    answers = {event.step_id: event.answer for event in answered}
    judged = sorted((one for one in summary.entrants if one.search), key=_minutes)
    codes = _codes(summary, judged, wanted.embeddings) if wanted.with_code else [None] * len(judged)
    return [_attempt(summary, one, answers, code) for one, code in zip(judged, codes, strict=True)]


def _minutes(one: ReportedCandidate) -> float:
    """When its verdict came."""
    return one.at.seconds / 60.0 if one.at else 0.0


def _attempt(
    summary: RunSummary, one: ReportedCandidate, answers: Mapping[int, Answer], code: CodeFacts | None
) -> Attempt:
    step, seed = one.step, summary.entrant(one.derived_from)
    answer = answers.get(step.id) if step else None
    verdict = one.final if one.final and one.final.profile else one.search
    return Attempt(
        id=one.candidate.id,
        seed=one.derived_from,
        role=step.role.value if step else OUTSIDE,
        model=(step.model if step else "") or (answer.model if answer else "") or one.candidate.author,
        fix=step.attempt if step else 0,
        status=one.search.status.value if one.search else "",
        speedup=one.search.speedup if one.search else None,
        seed_speedup=1.0 if one.derived_from == ORIGINAL else seed.search.speedup if seed and seed.search else None,
        usd=answer.usd if answer else None,
        code=code,
        profile=verdict.profile if verdict else None,
        profiled_ms=verdict.candidate_ms if verdict else None,
    )


def _codes(summary: RunSummary, judged: list[ReportedCandidate], embeddings: Embeddings | None) -> Sequence[CodeFacts]:
    sources = {ORIGINAL: summary.task.source}
    sources |= {one.candidate.id: one.candidate.source for one in summary.entrants}
    pairs = [(one.candidate.source, sources.get(one.derived_from, "")) for one in judged]
    found = [
        facts(source, seed, with_techniques=one is summary.best)
        for one, (source, seed) in zip(judged, pairs, strict=True)
    ]
    if embeddings is None:
        return found
    meant = iter(embeddings.similarities([pair for pair in pairs if pair[1]]))
    return [replace(one, meant=next(meant)) if seed else one for one, (_, seed) in zip(found, pairs, strict=True)]
