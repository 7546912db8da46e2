"""From what a cell came to, to its result.

Knows what a result says and which are known already. Does not keep them (`store`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pike
from pike.core.comparison.campaign import Cell
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result, digest, trimmed
from pike.core.device import DeviceFacts
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, Status
from pike.engine.output.result import RunResult
from pike.engine.schedule.contenders.candidates import FixedCandidate


@dataclass(frozen=True, slots=True)
class ResultTerms:
    """What all results of a suite or campaign have in common.

    Attributes:
        options: the terms of the judge, but for the precision.
        effort: how much a fixed candidate is measured; winners of searches are measured thoroughly.
        command: what was typed, without folders of this machine.
        commit: of the project's source.
        workers: how many judges share the device.
        share_caches: have the baselines of a task share what compilers leave behind.
    """

    options: EvaluateOptions
    effort: Effort = Effort.FINAL
    command: str = ""
    commit: str = ""
    workers: int = 1
    share_caches: bool = False

    def blank(self, cell: Cell, task: Task | None, device: DeviceFacts) -> Result:
        """The record of a cell that was not measured yet; `task` is None if it cannot be loaded."""
        is_baseline = cell.contender.kind is ContenderKind.BASELINE
        effort = self.effort if is_baseline or cell.contender.kind is ContenderKind.PUBLISHED else Effort.FINAL
        effort = Effort.BESIDE if is_baseline and effort is Effort.FINAL else effort
        place = Provenance(
            device=device,
            options=replace(self.options, device=device.device, precision=cell.precision),
            effort=effort,
            pike_version=pike.__version__,
            commit=self.commit,
            command=self.command,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            judges=self.workers,
            shared_caches=is_baseline and self.share_caches,
        )
        return Result(
            task=task.id if task else cell.task.name,
            task_digest=digest(task.source) if task else "",
            precision=cell.precision,
            contender=cell.contender.recorded,
            provenance=place,
            missing="not measured yet",
            folder=cell.folder,
            family=task.family if task else "",
        )


def known_result(blank: Result, results: Sequence[Result]) -> Result | None:
    """The earlier result that measuring would repeat; of a search, whatever it found."""

    def as_found(known: Result) -> Result:
        return replace(blank, candidate_digest=blank.candidate_digest or known.candidate_digest)

    return next((known for known in results if as_found(known).repeats(known)), None)


def of_candidate(blank: Result, candidate: FixedCandidate, evaluation: Evaluation, seconds: float) -> Result:
    """The result of a candidate that was judged; `blank` is its record."""
    # A search's winner that is no faster gives way to the original; a failure of the judge says nothing.
    faster = evaluation.timing is not None and evaluation.timing.faster
    won = blank.contender.kind in (ContenderKind.RECIPES, ContenderKind.RUN)
    return replace(
        dated(blank),
        evaluation=trimmed(evaluation),
        missing="",
        recipes=candidate.recipes if faster else (),
        candidates=candidate.tried,
        seconds=round(seconds, 3),
        original=won and not faster and evaluation.status is not Status.INFRA_ERROR,
    )


def of_run(blank: Result, run: RunResult, source: str) -> Result:
    """The result of a run that is over; `source` is its winning file, empty if there is none."""
    seconds = round(run.seconds, 3)
    if run.evaluation is None and run.stopped == "hours" and not run.candidates:
        return replace(blank, missing=f"the run ended before anything was judged ({run.stopped})", seconds=seconds)
    colds = {one.candidate_id: one.cold_start_seconds for one in run.recipe_history}
    return replace(
        dated(blank),
        cold_start_seconds=colds.get(run.best.id) if run.best else None,
        candidate_digest=digest(source) if source else "",
        evaluation=trimmed(run.evaluation) if run.evaluation else None,
        missing="",
        recipes=run.best.recipes if run.best and run.improved else (),
        candidates=run.candidates,
        seconds=seconds,
        original=not run.improved,
    )


def of_baselines(searched: Result, run: RunResult) -> tuple[Result, ...]:
    """The results of the baselines that a search timed beside its finalists; `searched` is its own."""
    return tuple(
        replace(
            searched,
            contender=Contender(name, ContenderKind.BASELINE),
            candidate_digest="",
            evaluation=trimmed(verdict),
            recipes=(),
            candidates=1,
            seconds=0.0,
            original=False,
            folder="",
            cold_start_seconds=None,
            beside=searched.contender.name,
            provenance=replace(searched.provenance, effort=Effort.BESIDE),
        )
        for name, verdict in run.baselines
    )


def dated(blank: Result) -> Result:
    """The record with the time of now."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(blank, provenance=replace(blank.provenance, date=date))
