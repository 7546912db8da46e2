"""The page of one run as plain values: the result and what it rests on first, then everything else.

Knows which words say what a figure rests on. Does not know how they look (`assets`).
"""

import json
from typing import Any

from pike.core import figures
from pike.core.codec import encode
from pike.core.verdict.evaluation import Evaluation
from pike.reporting.lineage import lineage
from pike.reporting.summary import ReportedCandidate, RunSummary, State
from pike.reporting.view.rows import rows

UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def run_view(summary: RunSummary) -> dict[str, Any]:
    """Everything that the page of a run shows before a candidate is opened."""
    best = summary.best
    links = lineage(summary, best.candidate.id) if best else ()
    return {
        "kind": "run",
        "title": summary.task.name,
        "state": summary.state.value,
        "stopped": summary.stop_reason,
        "subtitle": _subtitle(summary),
        "result": result(summary),
        "facts": facts(summary),
        "axes": axes(summary),
        "level": _level(summary),
        "best": best.candidate.id if best else "",
        "improved": best is not None and best.faster,
        "lineage": [{"id": link.entrant.candidate.id, "changed": link.changed_lines} for link in links],
        "statuses": [[status.value, number] for status, number in summary.statuses],
        "fixes": _fixes(summary),
        "finalists": [_finalist(entrant) for entrant in summary.finalists],
        "baselines": [_baseline(name, verdict) for name, verdict in summary.baselines],
        "recipes": _recipes(summary),
        "declined": [list(pair) for pair in summary.declined],
        "roles": _roles(summary),
        "unanswered": _unanswered(summary),
        "answered": _answered(summary),
        "ideas": list(summary.ideas),
        "flight": [_open(one) for one in summary.in_flight] if summary.state is not State.FINISHED else [],
        "slots": summary.config.engine.concurrency,
        "shares": _shares(summary),
        "setup": _setup(summary),
        "rows": rows(summary),
    }


def _subtitle(summary: RunSummary) -> list[str]:
    verdict = summary.best.verdict if summary.best else None
    words = [
        f"{summary.task.id} on {verdict.device if verdict and verdict.device else summary.device.name}",
        f"strategy {summary.config.strategy.label}",
        f"model {summary.config.llm.coa}",
        f"started {figures.moment(summary.started_at)}",
    ]
    words += [f"stopped asking: {summary.stop_reason}"] if summary.stop_reason else []
    return words + ([f"resumed {summary.resumed}×"] if summary.resumed else [])


def result(summary: RunSummary) -> dict[str, Any]:
    """The result in words: one figure, one sentence, and what it rests on."""
    found = _result(summary)
    if one := summary.imported:
        found["under"] = "as imported" if found.get("good") else found.get("under", "")
        words = f"PIKE did not judge this run: it was imported from {one.tool} ({one.source})."
        found["basis"] = [words, f"Every verdict and time is that of {one.tool}.", *one.missing]
    return found


def _result(summary: RunSummary) -> dict[str, Any]:
    best = summary.best
    verdict = best.verdict if best else None
    timing = verdict.timing if verdict else None
    if best is None or verdict is None or timing is None:
        when = "was found" if summary.state is State.FINISHED else "yet"
        lead = f"No valid candidate {when}."
        return {"figure": figures.NOTHING, "lead": lead, "basis": ["The list below says what refused each."]}
    interval = figures.interval(timing.speedup_ci95)
    basis = [_measured(best, verdict), *filter(None, [figures.disturbance(verdict)])]
    if best.faster:
        lead = f"{figures.ms(timing.reference_ms)} → {figures.ms(timing.candidate_ms)} per call"
        figure, under = figures.times(timing.speedup), f"95 % interval {interval}"
    else:
        lead = "The original stays: no candidate was faster beyond the measurement's uncertainty."
        figure, under = figures.times(1.0), "the original stays"
        basis.insert(0, f"The fastest valid one measured {figures.times(timing.speedup)} (95 % interval {interval}).")
    by, note = best.candidate.author, best.candidate.note
    return {"figure": figure, "under": under, "lead": lead, "basis": basis, "id": best.candidate.id, "by": by,
            "note": note, "good": best.faster}  # fmt: skip


def _measured(best: ReportedCandidate, verdict: Evaluation) -> str:
    timing = verdict.timing
    if best.final is None or timing is None:
        return "A measurement of the search, not yet measured again: the best of many is usually a little flattered."
    calls, blocks = figures.count(timing.calls), figures.plural(timing.blocks, "block")
    return f"Measured again at the end on fresh data: {calls} calls in {blocks}, interleaved with the original."


def facts(summary: RunSummary) -> list[list[str]]:
    """(figure, what it is) pairs: what the result rests on, then what it cost."""
    spend, budget = summary.spend, summary.config.budget
    found = _facts_of_best(summary.best) if summary.best and summary.best.faster else []
    if summary.config.llm.asks_models:
        found.append([figures.count(spend.queries), f"queries of {figures.count(budget.queries)}"])
    unpriced = f", without {figures.plural(spend.unpriced, 'call')} of unknown price" if spend.unpriced else ""
    limit = f" of {figures.usd(budget.usd)}" if budget.usd is not None else ""
    found.append([figures.usd(spend.usd), f"spent{limit}{unpriced}"])
    found.append([figures.duration(summary.seconds), "running time"])
    refused = sum(number for status, number in summary.statuses if status != "valid")
    rounds = figures.plural(summary.rounds, "round")
    found.append([figures.count(len(summary.entrants)), f"candidates in {rounds}, {refused:,} refused"])
    return found


def _facts_of_best(best: ReportedCandidate) -> list[list[str]]:
    verdict = best.verdict
    if verdict is None or verdict.timing is None:
        return []
    found, error, worst = [], verdict.error, verdict.timing.worst
    if error:
        vacuous = " (vacuous: an all-zero answer would pass)" if error.vacuous else ""
        allowed = figures.error(error.budget_max_abs)
        found.append([figures.error(error.max_abs), f"largest error; {verdict.tolerance} allows {allowed}{vacuous}"])
        allowed = figures.error(error.budget_rms)
        found.append([figures.error(error.rms), f"RMS error; precision {verdict.precision} allows {allowed}"])
    cold = best.search.cold_start_seconds if best.search else None
    if cold is not None:
        found.append([figures.duration(cold), "cold start: import, load and first call"])
    if verdict.held_bytes is not None:
        found.append([figures.rate(verdict.held_bytes, "B"), "memory that it holds"])
    if worst:
        found.append([figures.times(worst.speedup), f"least gain, on inputs {worst.distribution}"])
    return found


def axes(summary: RunSummary) -> list[dict[str, Any]]:
    """What the trajectory can be drawn against: the index in a row's `at`, its unit and its end."""
    unit, name = next((u, n) for u, n in UNITS if summary.seconds >= 2 * u or u == 1)
    found: list[dict[str, Any]] = []
    if summary.spend.queries:
        found.append(
            {"name": "queries", "label": "queries with a verdict", "at": 0, "unit": 1, "end": summary.spend.queries}
        )
    if summary.spend.usd:
        found.append({"name": "money", "label": "US dollars spent", "at": 1, "unit": 1, "end": summary.spend.usd})
    return [*found, {"name": "time", "label": f"running time in {name}", "at": 2, "unit": unit, "end": summary.seconds}]


def _level(summary: RunSummary) -> list[float] | None:
    final = summary.best.final if summary.best else None
    timing = final.timing if final else None
    return [timing.speedup_ci95[0], timing.speedup, timing.speedup_ci95[1]] if timing else None


def _fixes(summary: RunSummary) -> list[list[Any]]:
    found: list[list[Any]] = [
        ["right at once" if attempts == 0 else figures.plural(attempts, "attempt"), number]
        for attempts, number in summary.fix_attempts
    ]
    return found + ([["never valid", summary.never_valid]] if summary.never_valid else [])


def _finalist(entrant: ReportedCandidate) -> list[str]:
    final = entrant.final
    timing = final.timing if final else None
    return [
        entrant.candidate.id,
        entrant.candidate.author,
        figures.times(entrant.search.speedup if entrant.search else None),
        figures.times(timing.speedup if timing else None),
        figures.interval(timing.speedup_ci95 if timing else None),
        figures.ms(timing.candidate_ms if timing else None),
        final.status.value if final else "",
    ]


def _baseline(name: str, verdict: Evaluation) -> list[str]:
    timing = verdict.timing
    said = verdict.status.value if timing else f"{verdict.status.value}: {verdict.reason}"
    interval = figures.interval(timing.speedup_ci95 if timing else None)
    return [name, figures.ms(verdict.candidate_ms), figures.times(verdict.speedup), interval, said]


def _recipes(summary: RunSummary) -> list[list[str]]:
    return [
        [
            one.candidate_id,
            " + ".join(one.recipes),
            figures.times(one.speedup),
            figures.times(one.gained) if one.gained else "",
            f"{one.status.value}: {one.reason}" if one.speedup is None else "",
        ]
        for one in summary.recipe_history
    ]


def _roles(summary: RunSummary) -> list[list[str]]:
    return [
        [
            role.role.value,
            ", ".join(role.models),
            *map(figures.count, (role.calls, role.failed, role.input_tokens, role.output_tokens, role.thinking_tokens)),
            figures.usd(role.usd) + (" + unknown" if role.unpriced else ""),
        ]
        for role in summary.roles
    ]


def _answered(summary: RunSummary) -> list[list[str]]:
    return [
        [
            *map(str, (call.step, call.attempt, call.role, call.model)),
            *map(figures.count, (call.input_tokens, call.cached_tokens, call.output_tokens, call.thinking_tokens)),
            figures.usd(call.usd) if call.usd is not None else "unknown",
        ]
        for call in summary.calls
    ]


def _unanswered(summary: RunSummary) -> str:
    if not summary.uncertain.calls:
        return ""
    calls, usd = figures.plural(summary.uncertain.calls, "call"), summary.uncertain.usd
    cost = f"; they may have cost up to {figures.usd(usd)} more" if usd else ""
    return f"{calls} sent without an outcome in the journal{cost}."


def _open(one: Any) -> dict[str, Any]:
    role = one.step.role.value
    return {"step": one.step.id, "role": role, "phase": one.phase, "since": one.since, "worker": one.worker}


def _shares(summary: RunSummary) -> list[list[Any]]:
    """(stage, seconds) pairs: where the judging of this run's candidates went."""
    seconds: dict[str, float] = {}
    for entrant in summary.entrants:
        for verdict in filter(None, (entrant.search, entrant.final)):
            for name, taken in verdict.seconds:
                if name != "first-call":  # a part of `correct`
                    seconds[name] = seconds.get(name, 0.0) + taken
    return [[name, taken, figures.duration(taken)] for name, taken in seconds.items() if taken >= 0.05]


def _setup(summary: RunSummary) -> dict[str, Any]:
    verdict = summary.best.verdict if summary.best else None
    device = summary.device
    threads = f", {figures.plural(device.threads, 'thread')}" if device.threads and not device.is_cuda else ""
    return {
        "versions": ", ".join(f"{name} {version}" for name, version in device.versions),
        "device": device.name + threads,
        "sandbox": verdict.sandbox if verdict else "",
        "pike": summary.pike_version,
        "config": json.dumps(encode(summary.config), indent=2),
    }
