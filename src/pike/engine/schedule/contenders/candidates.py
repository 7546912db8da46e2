"""The candidate of a contender that does not search.

Knows baselines, published solutions and the winners of earlier searches and runs. Does not know how one is judged.
"""

from dataclasses import dataclass
from pathlib import Path

from pike.baselines import PublishedFolder, baseline_named, missing_here, source
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.errors import UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, Precision
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.run_winners import RunWinners


@dataclass(frozen=True, slots=True)
class FixedCandidate:
    """The candidate of a contender that does not search.

    Attributes:
        source: the file; empty if there is none.
        missing: why there is none; empty if there is one or the original stays.
        recipes: its composition, if recipes wrote it.
        tried: how many candidates that search judged.
    """

    source: str
    missing: str = ""
    recipes: tuple[str, ...] = ()
    tried: int = 1

    @property
    def original(self) -> bool:
        """True if an earlier search found nothing, so that the original stays."""
        return not self.source and not self.missing


def require_device(contender: Contender, is_cuda: bool) -> None:
    """Refuse a baseline that needs another device.

    Raises:
        UserError: it needs a GPU and there is none.
    """
    baseline = baseline_named(contender.source) if contender.kind is ContenderKind.BASELINE else None
    if baseline is not None and baseline.needs_cuda and not is_cuda:
        raise UserError(f"The baseline '{baseline.name}' needs an NVIDIA GPU; leave it out, or choose another --device")


def candidate_of(contender: Contender, task: Task, precision: Precision, winners: Histories) -> FixedCandidate:
    """The candidate of a contender that does not search; `winners` counts for winners only."""
    match contender.kind:
        case ContenderKind.PUBLISHED:
            return FixedCandidate(*PublishedFolder(Path(contender.source)).read(task))
        case ContenderKind.RECIPES:
            return _winner(winners, task, precision)
        case ContenderKind.RUN:
            return _winner_of_runs(RunWinners(Path(contender.source)), task, precision)
        case _:
            baseline = baseline_named(contender.source)
            if baseline is None:
                return FixedCandidate("", f"this version has no baseline '{contender.source}'")
            return FixedCandidate(source(baseline, task, precision))


def absence(contender: Contender, evaluation: Evaluation) -> str:
    """What this machine lacks for a baseline, as a verdict says; empty if it lacks nothing."""
    baseline = baseline_named(contender.source) if contender.kind is ContenderKind.BASELINE else None
    return missing_here(baseline, evaluation) if baseline is not None else ""


def _winner(winners: Histories, task: Task, precision: Precision) -> FixedCandidate:
    history = winners.winner(task.id, precision)
    if history is None:
        return FixedCandidate("", "no earlier search over recipes was on this task at this precision")
    return FixedCandidate(history.best, "", history.fastest, len(history.tried))


def _winner_of_runs(runs: RunWinners, task: Task, precision: Precision) -> FixedCandidate:
    found = runs.winner(task, precision)
    if found is None:
        return FixedCandidate("", "no finished run was on this task at this precision")
    won = found.best if found.improved else None
    return FixedCandidate(won.source if won else "", "", won.recipes if won else (), found.candidates)
