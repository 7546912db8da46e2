"""What a run came to, as one record.

Knows how the record is computed from the run's memory and what `result.json` holds. Does not know who shows it. A run
never loses: where no valid candidate beats the original, the original stays, and what is reported is a speedup of 1.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.budget import Budget, Spend
from pike.core.codec import encode
from pike.core.device import DeviceFacts
from pike.core.evaluation import Evaluation, Status
from pike.core.step import Candidate
from pike.core.trail import Tried, declined, trail
from pike.engine.ledger import Uncertain
from pike.engine.memory import Memory
from pike.engine.models import pairs

BEST = "best.py"
RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate that was measured again.

    Attributes:
        candidate_id: which.
        search_speedup: what the search measured.
        evaluation: what the re-measurement says; it may have refused the candidate.
    """

    candidate_id: str
    search_speedup: float
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run, complete or stopped.

    Attributes:
        task: id of the problem.
        name: what people read.
        folder: the run's folder.
        strategy: what people call the strategy: a preset, or the user's name for one of their own.
        models: (role, model) pairs of the roles that were asked, one for each model that a role could ask.
        finished: the finalists were measured again; otherwise the run can be resumed.
        stopped: why asking stopped: done, queries, money, tokens, hours, exhausted, interrupted, provider, infra or
            waiting (for an answer by hand).
        best: the fastest valid candidate, None without one; it takes the original's place only if `improved`.
        evaluation: its verdict, as measured: the re-measured one if `finished`, else that of the search.
        finalists: what was measured again, in order.
        spend: what was spent.
        uncertain: calls that were sent and never heard of again; they may have been charged.
        budget: the limits.
        counts: (status, candidates) pairs of the search, most first.
        candidates: how many were judged.
        rounds: search rounds begun.
        seconds: running time, the pauses between processes excluded.
        device: where candidates ran.
        pike_version: who began the run.
        notes: what else people should know, one sentence each.
        trail: what each composition of recipes brought, in order of the verdicts; empty where models write.
        declined: (recipe, why it does not apply) pairs; empty where recipes did not say.
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
    trail: tuple[Tried, ...] = ()
    declined: tuple[tuple[str, str], ...] = ()

    @property
    def speedup(self) -> float | None:
        """What the user gains: that of the winner, 1 where the original stays, None without a valid candidate."""
        if self.evaluation is None or self.evaluation.speedup is None:
            return None
        return self.evaluation.speedup if self.improved else 1.0

    @property
    def improved(self) -> bool:
        """Whether the winner beats the original by more than the measurement's uncertainty; else the original stays."""
        timing = self.evaluation.timing if self.evaluation else None
        return timing is not None and timing.faster

    @property
    def best_path(self) -> Path | None:
        """The winning file, None where the original stays."""
        return Path(self.folder) / BEST if self.improved else None

    @property
    def resume_command(self) -> str:
        """What to type to continue the run, empty when it is finished."""
        verb = "ask" if self.stopped == "waiting" else "resume"
        return "" if self.finished else f"pike {verb} {shlex.quote(self.folder)}"

    def flat(self) -> dict[str, Any]:
        """The object that `result.json` holds and `pike optimize --json` prints."""
        verdict = self.evaluation.flat() if self.evaluation else {}
        verdict.pop("log", None)
        reported = verdict if self.improved else {}
        return {
            "task": self.task,
            "name": self.name,
            "folder": self.folder,
            "finished": self.finished,
            "stopped": self.stopped,
            "improved": self.improved,
            "speedup": self.speedup,
            "speedup_ci95": reported.get("speedup_ci95"),
            "reference_ms": verdict.get("reference_ms"),
            "candidate_ms": reported.get("candidate_ms", verdict.get("reference_ms")),
            "max_abs_error": reported.get("max_abs_error"),
            "best": None
            if self.best is None
            else {k: v for k, v in encode(self.best).items() if k not in ("source", "plan")},
            "best_file": str(self.best_path) if self.best_path else None,
            "evaluation": verdict or None,
            "finalists": [_finalist(finalist) for finalist in self.finalists],
            "strategy": self.strategy,
            "models": _by_role(self.models),
            "spend": encode(self.spend),
            "uncertain": encode(self.uncertain),
            "budget": encode(self.budget),
            "trail": encode(self.trail),
            "declined": dict(self.declined),
            "counts": {status.value: count for status, count in self.counts},
            "candidates": self.candidates,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "device": encode(self.device),
            "pike_version": self.pike_version,
            "notes": list(self.notes),
            "resume_command": self.resume_command,
        }


def _by_role(models: tuple[tuple[str, str], ...]) -> dict[str, str | list[str]]:
    """The models of each role: a name, or a list of several."""
    found: dict[str, list[str]] = {}
    for role, name in models:
        found.setdefault(role, []).append(name)
    return {role: names[0] if len(names) == 1 else names for role, names in found.items()}


def result_of(memory: Memory, folder: Path, seconds: float, notes: tuple[str, ...] = ()) -> RunResult:
    """What the run in `memory` has come to by now."""
    finished = memory.finished
    best_id = finished.best if finished else memory.best_id
    evaluation = None
    if best_id is not None:
        evaluation = memory.finals[best_id] if finished else memory.solutions[best_id].evaluation
    config = memory.config
    return RunResult(
        task=memory.task.id,
        name=memory.task.name,
        folder=str(folder),
        strategy=config.strategy.label,
        models=pairs(config.llm, {state.step.role for state in memory.steps.values()}),
        finished=finished is not None,
        stopped=memory.closing if finished else memory.stopped,
        best=memory.solutions[best_id].candidate if best_id is not None else None,
        evaluation=evaluation,
        finalists=tuple(
            Finalist(id_, memory.solutions[id_].evaluation.speedup or 0.0, final)
            for id_, final in memory.finals.items()
        ),
        spend=memory.accounts.spend,
        uncertain=memory.accounts.uncertain,
        budget=config.budget,
        counts=tuple(memory.counts.most_common()),
        candidates=len(memory.solutions),
        rounds=1 + memory.latest_round,
        seconds=seconds,
        device=memory.device,
        pike_version=memory.version,
        notes=(*_notes(memory), *notes),
        trail=trail((one, memory.solutions[one.id].evaluation) for one in memory.known),
        declined=declined(memory.remarks),
    )


def _notes(memory: Memory) -> tuple[str, ...]:
    notes = []
    uncertain, spend = memory.accounts.uncertain, memory.accounts.spend
    if uncertain.calls:
        notes.append(
            f"{uncertain.calls} calls were sent but no answer was recorded; the provider may have charged "
            f"up to ${uncertain.usd:.2f} for them"
        )
    if spend.unpriced:
        notes.append(f"The price of {spend.unpriced} calls is unknown; they are missing from the money spent")
    if memory.finished and memory.finished.best is None:
        whys = [f"{id_}: {final.status.value}: {final.reason}" for id_, final in memory.finals.items()]
        notes.append(
            f"No finalist passed the final measurement: {'; '.join(whys)}" if whys else "No candidate was valid"
        )
    return tuple(notes)


def _finalist(finalist: Finalist) -> dict[str, Any]:
    timing = finalist.evaluation.timing
    return {
        "candidate": finalist.candidate_id,
        "status": finalist.evaluation.status.value,
        "reason": finalist.evaluation.reason,
        "search_speedup": finalist.search_speedup,
        "speedup": timing.speedup if timing else None,
        "speedup_ci95": list(timing.speedup_ci95) if timing else None,
    }
