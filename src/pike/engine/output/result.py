"""The outcome of a run, as one record.

Knows how the record is computed from the run's state, and the content of `result.json`. Does not
know how it is shown. A run never loses: where no valid candidate beats the original, the original
stays, and the reported speedup is 1.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike import llm
from pike.core import figures
from pike.core.accounts import Uncertain
from pike.core.codec import encode
from pike.core.device import DeviceFacts
from pike.core.recipe_history import TriedComposition, declined, recipe_history
from pike.core.settings.budget import Budget, Spend
from pike.core.settings.config import NONE
from pike.core.step import Candidate, Role
from pike.core.verdict.evaluation import Evaluation, Status
from pike.engine.state.models import pairs
from pike.engine.state.run_state import RunState

BEST = "best.py"
RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate that was measured again.

    Attributes:
        evaluation: the verdict of the re-measurement, which may refuse it.
    """

    candidate_id: str
    search_speedup: float
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run, complete or stopped.

    Attributes:
        strategy: the strategy's name: a preset, or the user's name for one of their own.
        models: (role, model) pairs of the roles that were asked, one for each model of a role.
        finished: the finalists were measured again; otherwise the run can be resumed.
        stopped: why asking stopped: done, queries, money, tokens, hours, exhausted, interrupted,
            provider, infra or waiting (for an external answer).
        best: the fastest valid candidate, None without one; it counts only if `improved`.
        evaluation: its verdict: the re-measured one if `finished`, else that of the search.
        finalists: the re-measured candidates, in order.
        baselines: (name, verdict) pairs, timed in the same sessions as the finalists.
        uncertain: calls without an outcome in the journal; they may have been charged.
        counts: (status, candidates) pairs of the search, most first.
        rounds: search rounds begun.
        seconds: running time, the pauses between processes excluded.
        pike_version: the version that began the run.
        notes: what else people should know, one sentence each.
        recipe_history: what each composition of recipes brought, in order of the verdicts; empty
            where models write.
        declined: (recipe, why it does not apply) pairs; empty where recipes did not say.
        original_ms: about the original's time, None where it was not run.
        cold_start_seconds: of the best candidate in the search: later, compilers' caches are found.
    """

    task: str
    name: str
    folder: str
    strategy: str
    models: tuple[tuple[str, str], ...]
    finished: bool
    stopped: str
    best: Candidate | None
    evaluation: Evaluation | None
    finalists: tuple[Finalist, ...]
    spend: Spend
    uncertain: Uncertain
    budget: Budget
    counts: tuple[tuple[Status, int], ...]
    candidates: int
    rounds: int
    seconds: float
    device: DeviceFacts
    pike_version: str
    notes: tuple[str, ...] = ()
    recipe_history: tuple[TriedComposition, ...] = ()
    declined: tuple[tuple[str, str], ...] = ()
    original_ms: float | None = None
    cold_start_seconds: float | None = None
    baselines: tuple[tuple[str, Evaluation], ...] = ()

    @property
    def asks_models(self) -> bool:
        """Whether some role asked a model; otherwise recipes wrote all, and no step was a query."""
        return any(name != NONE for _, name in self.models)

    @property
    def speedup(self) -> float | None:
        """The winner's speedup, 1 where the original stays, None without a valid candidate."""
        if self.evaluation is None or self.evaluation.speedup is None:
            return None
        return self.evaluation.speedup if self.improved else 1.0

    @property
    def improved(self) -> bool:
        """Whether the winner beats the original by more than the measurement's uncertainty."""
        timing = self.evaluation.timing if self.evaluation else None
        return timing is not None and timing.faster

    @property
    def best_path(self) -> Path | None:
        """The winning file, None where the original stays."""
        return Path(self.folder) / BEST if self.improved else None

    @property
    def sentence(self) -> str:
        """What a finished run found, where it lies, or why the original stays."""
        timing = self.evaluation.timing if self.evaluation else None
        if self.best is None or timing is None:
            tried = figures.plural(self.candidates, "candidate")
            return f"The original stays: of {tried} none passed the judge to the end."
        measured = f"{figures.times(timing.speedup)} (95 % interval {figures.interval(timing.speedup_ci95)})"
        if self.improved:
            return f"{self.best.id} is {measured} as fast as the original, measured again; it lies in {self.best_path}."
        return (
            f"The original stays: the fastest right candidate, {self.best.id}, measured {measured}, which is no "
            "gain beyond the measurement's uncertainty."
        )

    @property
    def resume_command(self) -> str:
        """The command that continues the run, empty when it is finished."""
        verb = {"waiting": "ask", "elsewhere": "bundle"}.get(self.stopped, "resume")
        return "" if self.finished else f"pike {verb} {shlex.quote(self.folder)}"

    def flat(self) -> dict[str, Any]:
        """The object that `result.json` holds and `pike optimize --json` prints."""
        verdict = self.evaluation.flat() if self.evaluation else {}
        verdict.pop("log", None)
        reported = verdict if self.improved else {}
        plain = encode(self)
        best = plain["best"] and {key: value for key, value in plain["best"].items() if key not in ("source", "plan")}
        return {
            **{name: plain[name] for name in ("task", "name", "folder", "finished", "stopped")},
            "improved": self.improved,
            "speedup": self.speedup,
            "speedup_ci95": reported.get("speedup_ci95"),
            "reference_ms": verdict.get("reference_ms") or self.original_ms,
            "candidate_ms": reported.get("candidate_ms", verdict.get("reference_ms")),
            "cold_start_seconds": self.cold_start_seconds if self.improved else None,
            "held_bytes": reported.get("held_bytes"),
            "max_abs_error": reported.get("max_abs_error"),
            "best": best,
            "best_file": str(self.best_path) if self.best_path else None,
            "evaluation": verdict or None,
            "baselines": {name: _brief(verdict) for name, verdict in self.baselines},
            "finalists": [_finalist(finalist) for finalist in self.finalists],
            "models": _by_role(self.models),
            "trail": plain["recipe_history"],
            "declined": dict(self.declined),
            "counts": {status.value: count for status, count in self.counts},
            **{name: plain[name] for name in ("strategy", "spend", "uncertain", "budget", "candidates", "rounds")},
            **{name: plain[name] for name in ("seconds", "device", "pike_version", "notes")},
            "resume_command": self.resume_command,
        }


def _by_role(models: tuple[tuple[str, str], ...]) -> dict[str, str | list[str]]:
    """The models of each role: a name, or a list of several."""
    found: dict[str, list[str]] = {}
    for role, name in models:
        found.setdefault(role, []).append(name)
    return {role: names[0] if len(names) == 1 else names for role, names in found.items()}


def result_of(state: RunState, folder: Path, seconds: float, notes: tuple[str, ...] = ()) -> RunResult:
    """The outcome of the run in `state` so far."""
    finished = state.finished
    best_id = finished.best if finished else state.best_id
    searched = state.solutions[best_id].evaluation if best_id is not None else None
    evaluation = state.finals[best_id] if finished and best_id is not None else searched
    config = state.config
    return RunResult(
        task=state.task.id,
        name=state.task.name,
        folder=str(folder),
        strategy=config.strategy.label,
        models=pairs(config.llm, {step_state.step.role for step_state in state.steps.values()}),
        finished=finished is not None,
        stopped=state.closing if finished else state.stopped,
        best=state.solutions[best_id].candidate if best_id is not None else None,
        evaluation=evaluation,
        finalists=tuple(
            Finalist(id_, state.solutions[id_].evaluation.speedup or 0.0, final) for id_, final in state.finals.items()
        ),
        spend=state.accounts.spend,
        uncertain=state.accounts.uncertain,
        budget=config.budget,
        counts=tuple(state.counts.most_common()),
        candidates=len(state.solutions),
        rounds=1 + state.latest_round,
        seconds=seconds,
        device=state.device,
        pike_version=state.version,
        notes=(*_notes(state), *notes),
        recipe_history=recipe_history((one, state.solutions[one.id].evaluation) for one in state.known),
        declined=declined(state.remarks),
        original_ms=state.reference_ms,
        cold_start_seconds=searched.cold_start_seconds if searched else None,
        baselines=tuple(state.baselines.items()),
    )


def shared_processor(state: RunState) -> str:
    """Say that a model runs on the processor that candidates are timed on; empty if none does."""
    if state.device.is_cuda or (state.started and state.started.imported):
        return ""
    names = sorted(name for _, name in pairs(state.config.llm, tuple(Role)))
    here = next((name for name in names if llm.parse(name).on_this_machine), "")
    return here and (
        f"'{here}' answers on the CPU on which candidates are timed, so times are longer and less steady: "
        "run the model on another machine or on a GPU"
    )


def _notes(state: RunState) -> tuple[str, ...]:
    notes = [shared] if (shared := shared_processor(state)) else []
    uncertain, spend = state.accounts.uncertain, state.accounts.spend
    if uncertain.calls:
        charged = f"; the provider may have charged up to ${uncertain.usd:.2f} for them" if uncertain.usd else ""
        notes.append(f"{figures.plural(uncertain.calls, 'call')} sent, and no answer was recorded{charged}")
    if spend.unpriced:
        notes.append(f"The price of {spend.unpriced} calls is unknown; they are missing from the money spent")
    if state.finished and state.finished.best is None:
        whys = [f"{id_}: {final.status.value}: {final.reason}" for id_, final in state.finals.items()]
        none = "No candidate was valid" if state.solutions else "No candidate was tried"
        if not state.solutions and state.closing == "hours":
            none += ", because the time was over before: give the run more time (--max-minutes)"
        notes.append(f"No finalist passed the final measurement: {'; '.join(whys)}" if whys else none)
    return tuple(notes)


def _finalist(finalist: Finalist) -> dict[str, Any]:
    return {"candidate": finalist.candidate_id, "search_speedup": finalist.search_speedup} | _brief(finalist.evaluation)


def _brief(evaluation: Evaluation) -> dict[str, Any]:
    verdict = evaluation.flat()
    return {name: verdict[name] for name in ("status", "reason", "speedup", "speedup_ci95", "candidate_ms")}
