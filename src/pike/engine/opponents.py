"""Measures what there is to beat: baselines and published solutions, on one task or on whole suites.

Knows how opponents are chosen by name, what is not measured twice, and what a results record says about where it was
measured. Does not know how baselines are written (`baselines`), judged (`evaluate`) or scheduled (`contest`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pike.baselines import (
    BASELINES,
    PREFIX,
    Baseline,
    Measured,
    Published,
    for_device,
    measure,
    missing_here,
    source,
)
from pike.core.config import nearest
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision
from pike.core.results import Contender, ContenderKind, Provenance, Result, digest, trimmed
from pike.core.task import Task
from pike.engine.contest import Seat
from pike.engine.result import RunResult
from pike.evaluate.client import JudgeClient

__all__ = [
    "Baseline",
    "Batch",
    "Measured",
    "Notebook",
    "Opponent",
    "device_facts",
    "measure_baselines",
    "opponents_named",
    "result_of_run",
    "unusable",
]


def measure_baselines(
    task: Task, options: EvaluateOptions, names: Sequence[str] | None = None, effort: Effort = Effort.FINAL
) -> tuple[Measured, ...]:
    """The verdicts on baselines, in order.

    Args:
        task: the problem.
        options: the terms, the same as the candidates'.
        names: which baselines, for example `compile`; None for all that are distinct on the device.
        effort: how much measuring.

    Raises:
        UserError: there is no baseline of that name.
        InfraError: the judge died.
    """
    chosen = None if names is None else [_named(name) for name in names]
    judge = JudgeClient()
    try:
        return tuple(measure(judge, task, options, chosen, effort))
    finally:
        judge.close()


class Opponent(Protocol):
    """One column of a results table that is measured by judging one file for each task."""

    @property
    def contender(self) -> Contender:
        """Its name and kind."""
        ...

    def write(self, task: Task, precision: Precision) -> tuple[str, str]:
        """The candidate, and why there is none (one of them empty)."""
        ...

    def missing(self, evaluation: Evaluation) -> str:
        """Why a verdict says that this machine lacks something; empty where it says something about the candidate."""
        ...


@dataclass(frozen=True, slots=True)
class _BaselineOpponent:
    baseline: Baseline

    @property
    def contender(self) -> Contender:
        return Contender(self.baseline.name, ContenderKind.BASELINE)

    def write(self, task: Task, precision: Precision) -> tuple[str, str]:
        return source(self.baseline, task, precision), ""

    def missing(self, evaluation: Evaluation) -> str:
        return missing_here(self.baseline, evaluation)


@dataclass(frozen=True, slots=True)
class _PublishedOpponent:
    published: Published

    @property
    def contender(self) -> Contender:
        return Contender(self.published.name, ContenderKind.PUBLISHED)

    def write(self, task: Task, precision: Precision) -> tuple[str, str]:
        path, why = self.published.find(task)
        if path is None:
            return "", why
        try:
            return path.read_text(encoding="utf-8"), ""
        except (OSError, UnicodeDecodeError) as error:
            return "", f"{path.name} cannot be read: {error}"

    def missing(self, evaluation: Evaluation) -> str:
        return ""


def opponents_named(names: Sequence[str] | None, is_cuda: bool) -> tuple[Opponent, ...]:
    """The opponents of these names, in order.

    Args:
        names: baselines and `published:FOLDER`; None for every baseline that is distinct on the device.
        is_cuda: whether that is an NVIDIA GPU.

    Raises:
        UserError: there is no such baseline or folder, or one needs a GPU and there is none.
    """
    if names is None:
        return tuple(_BaselineOpponent(baseline) for baseline in for_device(is_cuda))
    return tuple(_opponent(name, is_cuda) for name in dict.fromkeys(names))


def _opponent(name: str, is_cuda: bool) -> Opponent:
    if name.startswith(PREFIX):
        return _PublishedOpponent(Published(Path(name.removeprefix(PREFIX)).expanduser()))
    baseline = _named(name)
    if baseline.needs_cuda and not is_cuda:
        raise UserError(f"The baseline '{name}' needs an NVIDIA GPU; leave it out, or choose another --device")
    return _BaselineOpponent(baseline)


def _named(name: str) -> Baseline:
    known = {baseline.name: baseline for baseline in BASELINES}
    if name not in known:
        raise UserError(f"There is no baseline '{name}'{nearest(name, known)}")
    return known[name]


def device_facts(device: str) -> DeviceFacts:
    """What `device` is, as a judge sees it.

    Raises:
        UserError: there is no such device.
        InfraError: no judge could be started.
    """
    judge = JudgeClient()
    try:
        return judge.facts(device)
    finally:
        judge.close()


@dataclass(slots=True)
class Notebook:
    """What a contest knows while it goes on: where it measures, what was measured before, what this machine lacks.

    Attributes:
        place: of every result; its date and the precision of its options are filled in.
        known: earlier results, which are not measured again.
        absent: by opponent, why this machine cannot measure it.
    """

    place: Provenance
    known: Sequence[Result] = ()
    absent: dict[str, str] = field(default_factory=dict)

    def begin(self, task: Task, precision: Precision, contender: Contender) -> Result:
        """The record of a measurement that was not made yet."""
        options = replace(self.place.options, precision=precision)
        place = replace(self.place, options=options, date=datetime.now(UTC).isoformat(timespec="seconds"))
        return Result(task.id, digest(task.source), precision, contender, place, missing="not measured yet")

    def earlier(self, result: Result) -> Result | None:
        """What would only be repeated; of a search, whose winner nobody knows before, whatever it found."""

        def found(known: Result) -> Result:
            file = result.candidate_digest or known.candidate_digest
            return replace(result, candidate_digest=file)

        return next((known for known in self.known if found(known).repeats(known)), None)


@dataclass(frozen=True, slots=True)
class Batch:
    """A job of a contest: opponents on one task at one precision, one after the other, so that the judge prepares the
    task once."""

    task: Task
    precision: Precision
    opponents: tuple[Opponent, ...]
    notebook: Notebook
    expected_seconds: float = 0.0

    def unknown(self) -> Batch:
        """The same without opponents whose results are known already."""
        opponents = (opponent for opponent in self.opponents if not self._known(opponent))
        return replace(self, opponents=tuple(opponents))

    def results(self, seat: Seat) -> Iterator[Result]:
        """Each result; those that are known already come at once."""
        for opponent in self.opponents:
            yield self._result(seat, opponent)

    def _known(self, opponent: Opponent) -> bool:
        text, missing = opponent.write(self.task, self.precision)
        blank = self.notebook.begin(self.task, self.precision, opponent.contender)
        return not missing and self.notebook.earlier(replace(blank, candidate_digest=digest(text))) is not None

    def _result(self, seat: Seat, opponent: Opponent) -> Result:
        blank = self.notebook.begin(self.task, self.precision, opponent.contender)
        text, missing = opponent.write(self.task, self.precision)
        missing = missing or self.notebook.absent.get(opponent.contender.name, "")
        if missing:
            return replace(blank, missing=missing)
        blank = replace(blank, candidate_digest=digest(text))
        known = self.notebook.earlier(blank)
        if known is not None:
            return known
        place = blank.provenance
        shares = place.shared_caches and opponent.contender.kind is ContenderKind.BASELINE
        caches = ContenderKind.BASELINE.value if shares else ""
        request = EvaluationRequest(self.task, text, place.options, place.effort, caches=caches)
        return self._judged(seat, opponent, blank, request)

    def _judged(self, seat: Seat, opponent: Opponent, blank: Result, request: EvaluationRequest) -> Result:
        began = time.monotonic()
        try:
            evaluation = seat.evaluate(request)
        except UserError as error:
            return unusable(blank, error)
        seconds = round(time.monotonic() - began, 3)
        missing = opponent.missing(evaluation)
        if missing:
            self.notebook.absent[opponent.contender.name] = missing
            return replace(blank, missing=missing, seconds=seconds)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        place = replace(blank.provenance, date=date)
        return replace(blank, provenance=place, evaluation=trimmed(evaluation), missing="", seconds=seconds)


def unusable(blank: Result, error: UserError) -> Result:
    """What is known of a task that no judge could use; other tasks are measured all the same."""
    return replace(blank, missing=f"the task cannot be used: {error}")


def result_of_run(blank: Result, run: RunResult, source: str, seconds: float) -> Result:
    """What a run came to as a contender's result.

    Args:
        blank: task, precision, contender and place.
        run: a run on this task at this precision.
        source: its winning file, empty where there is none.
        seconds: what all of it took.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    if run.evaluation is None and (not run.finished or (run.stopped == "hours" and not run.candidates)):
        return replace(blank, missing=f"the run ended before anything was judged ({run.stopped})", seconds=seconds)
    return replace(
        blank,
        provenance=replace(blank.provenance, date=date),
        candidate_digest=digest(source) if source else "",
        evaluation=trimmed(run.evaluation) if run.evaluation else None,
        missing="",
        recipes=run.best.recipes if run.best and run.improved else (),
        candidates=run.candidates,
        seconds=round(seconds, 3),
        original=not run.improved,
    )


def batches(
    tasks: Iterable[Task], precisions: Sequence[Precision], opponents: Sequence[Opponent], notebook: Notebook
) -> Iterator[Batch]:
    """One job for each task and precision."""
    for task in tasks:
        for precision in precisions:
            yield Batch(task, precision, tuple(opponents), notebook)
