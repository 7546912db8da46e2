"""What a page shows of one candidate or step once it is opened: texts, verdict, profile.

Knows where prompts and answers stand in a journal. Does not know how many of them a page can hold
(`shell`).
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pike.core import figures
from pike.core.errors import StoreError
from pike.core.events import QueryAnswered, QuerySent
from pike.core.query import Answer
from pike.core.verdict.evaluation import Evaluation
from pike.core.verdict.profile import Profile
from pike.reporting.summary import ReportedCandidate, RunSummary
from pike.store import read


@dataclass(slots=True)
class StepTexts:
    """What a model was asked in a step and what it answered, the last attempt of each."""

    prompt: str = ""
    system: str = ""
    answer: str = ""
    facts: list[list[str]] = field(default_factory=list)


def texts_of(folder: Path, seqs: Iterable[int] | None = None) -> dict[int, StepTexts]:
    """The texts of steps: of all in one pass, or of the entries with these numbers only.

    Texts that are lost, or cannot be read, count as none: the page says the rest.
    """
    entries = read(folder) if seqs is None else (next(read(folder, seq - 1)) for seq in seqs)
    found: defaultdict[int, StepTexts] = defaultdict(StepTexts)
    with suppress(StoreError):
        for entry in entries:
            match entry.event:
                case QuerySent(query=query):
                    step = found[query.step_id]
                    step.prompt, step.system = query.prompt, query.system
                case QueryAnswered(step_id=step_id, answer=answer):
                    step = found[step_id]
                    step.answer, step.facts = answer.text, _facts(answer)
    return found


def _facts(answer: Answer) -> list[list[str]]:
    thinking = f" ({answer.thinking_tokens:,} of it thinking)" if answer.thinking_tokens else ""
    return [
        ["model", answer.model],
        ["tokens in", figures.count(answer.input_tokens)],
        ["tokens out", figures.count(answer.output_tokens) + thinking],
        ["cost", figures.usd(answer.usd)],
        ["took", figures.duration(answer.latency_seconds)],
    ]


def original_details(summary: RunSummary) -> dict[str, Any]:
    """What is shown of the original."""
    return _kept({"source": summary.task.source, "profile": _profile(summary.original_profile)})


def details(entrant: ReportedCandidate | None, texts: StepTexts | None) -> dict[str, Any]:
    """What is shown of a candidate, or of a step without one; empty parts are left out."""
    said = (
        {"prompt": texts.prompt, "system": texts.system, "answer": texts.answer, "call": texts.facts} if texts else {}
    )
    if entrant is None:
        return _kept(said)
    source = {"source": entrant.candidate.source, "plan": entrant.candidate.plan}
    return _kept({**source, **said, **(_verdict(entrant, entrant.verdict) if entrant.verdict else {})})


def _verdict(entrant: ReportedCandidate, verdict: Evaluation) -> dict[str, Any]:
    timing, error = verdict.timing, verdict.error
    facts = [
        ["original", figures.ms(timing.reference_ms if timing else None)],
        ["candidate", figures.ms(timing.candidate_ms if timing else None)],
        ["speedup in the search", figures.times(entrant.search.speedup if entrant.search else None)],
        ["speedup measured again", figures.times(entrant.final.speedup if entrant.final else None)],
        ["95 % interval", figures.interval(timing.speedup_ci95 if timing else None)],
        ["calls, blocks", f"{timing.calls:,}, {timing.blocks:,}" if timing else ""],
        ["largest error", f"{figures.error(error.max_abs)} of {figures.error(error.budget_max_abs)}" if error else ""],
        ["RMS error", f"{figures.error(error.rms)} of {figures.error(error.budget_rms)}" if error else ""],
        ["cold start", figures.duration(entrant.search.cold_start_seconds if entrant.search else None)],
        ["memory held", figures.rate(verdict.held_bytes, "B") if verdict.held_bytes is not None else ""],
        ["weights", verdict.weights.value],
        ["labels", ", ".join(verdict.labels)],
        ["judging took", ", ".join(f"{name} {figures.duration(seconds)}" for name, seconds in verdict.seconds)],
        ["disturbed", figures.disturbance(verdict)],
        ["sandbox", verdict.sandbox],
    ]
    shown = [pair for pair in facts if pair[1] not in ("", figures.NOTHING)]
    search = entrant.search
    profile = verdict.profile or (search.profile if search else None)
    return {"verdict": shown, "log": verdict.log, "profile": _profile(profile)}


def _profile(profile: Profile | None) -> dict[str, Any] | None:
    if profile is None:
        return None
    ceilings = profile.ceilings
    return {
        "source": profile.source,
        "note": profile.note,
        "hotspots": [[one.name, one.share, one.calls] for one in profile.hotspots],
        "busy": profile.busy_share,
        "launches": profile.launches,
        "peak": figures.rate(profile.peak_bytes, "B") if profile.peak_bytes else "",
        "intensity": profile.operations / profile.least_bytes if profile.least_bytes else 0,
        "operations": profile.operations_per_second,
        "bytes": profile.bytes_per_second,
        "said": [
            figures.rate(profile.bytes_per_second, "B/s", profile.bandwidth_share),
            figures.rate(profile.operations_per_second, "FLOP/s", profile.arithmetic_share),
        ],
        "roof": [ceilings.bytes_per_second, ceilings.operations_per_second, ceilings.source] if ceilings else None,
    }


def _kept(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
