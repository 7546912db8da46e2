"""The figures of a campaign, computed from the journals of its runs and from nothing else.

Works on a campaign that goes on, was stopped or was killed. Does not show figures (`cli`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pike
from pike.core.codec import decode, encode
from pike.core.comparison.campaign import CampaignConfig, CampaignPlan, Cell
from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.core.settings.budget import Spend
from pike.reporting.fold import summarise
from pike.reporting.standings import Axis, Cut, NewBest, Standing, Trajectory, best_at, standing, trajectory
from pike.reporting.summary import RunSummary, State
from pike.store import campaigns, checkpoint


class CellState(StrEnum):
    """How far one run of a campaign got."""

    FINISHED = "finished"
    """Its best candidates were measured again."""
    FAILED = "failed"
    """It could not be carried out; a resume tries it again."""
    BEGUN = "begun"
    """It can be continued."""
    WAITING = "waiting"
    """It has not begun."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What a campaign keeps of a run.

    Attributes:
        finished: the run is complete.
        stop_reason: why asking stopped, empty while it has not.
        spend: what was spent.
        held_usd: what a budget counts beside it (answers without a price).
        unanswered_usd: the most that calls without an answer may have cost.
        rises: the best so far of the search, wherever it rose.
        final: the re-measured speedup of the fastest valid candidate, None where there is none;
            below 1 where the original stays, as the unclamped figures need it.
        candidates: how many were judged.
        seconds: running time.
        sessions: (begin, end) in Unix seconds of each time that it was open.
    """

    finished: bool
    stop_reason: str
    spend: Spend
    held_usd: float
    unanswered_usd: float
    rises: tuple[NewBest, ...]
    final: float | None
    candidates: int
    seconds: float
    sessions: tuple[tuple[float, float], ...]

    def speedup_at(self, cut: Cut) -> float | None:
        """The best speedup at a cut; at the end of a finished run, the re-measured one."""
        return self.final if cut.axis is None and self.finished else best_at(self.rises, cut)

    def reaches(self, cut: Cut) -> bool:
        """Whether the run spent so much, or ended before."""
        spent = self.spend.usd if cut.axis is Axis.USD else self.spend.queries
        return self.finished or (cut.axis is not None and spent >= cut.at)


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One run in the campaign's list.

    Attributes:
        task: its task.
        contender: what its contender is called in the table.
        repeat: from 0.
        folder: where it is, in the campaign's folder.
        run_seed: its seed.
        state: how far it got.
        reason: why it failed, or why asking stopped.
        speedup: re-measured where finished, else the best of the search; None without a valid
            candidate.
        run: its figures, None where it has not begun.
    """

    task: str
    contender: str
    repeat: int
    folder: str
    run_seed: int
    state: CellState
    reason: str
    speedup: float | None
    run: RunFigures | None


@dataclass(frozen=True, slots=True)
class CampaignFigures:
    """A campaign in figures; `campaign.json` holds exactly this.

    Attributes:
        pike_version: the version that began it.
        campaign: its table of settings.
        finished: every run is finished or failed.
        spend: of all runs.
        unanswered_usd: the most that calls without an answer may have cost.
        seconds: time in which at least one run was open.
        standings: every contender at every cut that a run got to, and at the end.
        trajectories: clamped geomeans against queries and, where some was spent, money.
        cells: every run.
        notes: how to read the figures, one sentence each.
    """

    pike_version: str
    campaign: CampaignConfig
    finished: bool
    spend: Spend
    unanswered_usd: float
    seconds: float
    standings: tuple[Standing, ...]
    trajectories: tuple[Trajectory, ...]
    cells: tuple[CellFigures, ...]
    notes: tuple[str, ...]


_VERSION = f"{pike.__version__}/1"
"""Of kept `RunFigures`; the number after the slash rises when they are computed in another way."""

NOTES = (
    "clamped: geomean of the speedups, where a task without a valid candidate, or with a slower one, counts as 1",
    "unclamped: geomean over the tasks with a valid candidate only; those that are counted as failed are left out",
    "fast_p: share of all tasks with a speedup above p",
    "reached: runs that spent so much, or ended before; while others go on, their figures may still rise",
    "at a cut: as measured by the search; at the end: measured again on fresh data where a run is finished",
)


def figures_of_run(folder: Path) -> RunFigures | None:
    """What the run in `folder` has come to by now, None where it has not begun.

    What was computed once is kept beside the journal until that grows.

    Raises:
        StoreError: its journal cannot be read.
    """
    try:
        mark = checkpoint.mark_of(folder)
        known = checkpoint.read(folder, "figures", _VERSION, mark)
        with suppress(ValueError):
            return decode(RunFigures, known)
        found = _condensed(summarise(folder))
    except UserError:
        return None
    checkpoint.write(folder, "figures", _VERSION, mark, encode(found))
    return found


def summarise_campaign(folder: Path) -> CampaignFigures:
    """The figures of the campaign in `folder`, which may still be going on.

    Raises:
        UserError: there is no campaign in `folder`.
        StoreError: a journal cannot be read.
    """
    plan = campaigns.read_plan(folder)
    results = campaigns.results_of(folder)
    cells = [_cell(folder, cell, results) for cell in plan.cells()]
    runs = [cell.run for cell in cells if cell.run is not None]
    spend = sum((run.spend for run in runs), Spend())
    return CampaignFigures(
        pike_version=plan.pike_version,
        campaign=plan.campaign,
        finished=all(cell.state in (CellState.FINISHED, CellState.FAILED) for cell in cells),
        spend=spend,
        unanswered_usd=sum(run.unanswered_usd for run in runs),
        seconds=busy_seconds(session for run in runs for session in run.sessions),
        standings=_standings(plan, cells),
        trajectories=_trajectories(plan, cells, spend),
        cells=tuple(cells),
        notes=NOTES,
    )


def busy_seconds(sessions: Iterable[tuple[float, float]]) -> float:
    """The time that is covered by at least one of the (begin, end) pairs."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(sessions):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _condensed(summary: RunSummary) -> RunFigures:
    finished = summary.state is State.FINISHED
    return RunFigures(
        finished=finished,
        stop_reason=summary.stop_reason,
        spend=summary.spend,
        held_usd=summary.held_usd,
        unanswered_usd=summary.uncertain.usd,
        rises=tuple(NewBest(point.queries, point.usd, point.best) for point in summary.rises),
        final=summary.best.speedup if finished and summary.best else None,
        candidates=sum(entrant.search is not None for entrant in summary.entrants),
        seconds=summary.seconds,
        sessions=summary.sessions,
    )


def _figures_of_result(result: Result | None) -> RunFigures | None:
    """A fixed candidate as a run that spent nothing; None if nothing settled is known of it."""
    if result is None or not result.settled:
        return None
    speedup = result.speedup
    rises = (NewBest(0, 0.0, speedup),) if speedup is not None else ()
    return RunFigures(True, "", Spend(), 0.0, 0.0, rises, speedup, 1, result.seconds, ())


def _cell(folder: Path, cell: Cell, results: Mapping[str, Result]) -> CellFigures:
    if cell.contender.searches:
        run = figures_of_run(campaigns.run_folder(folder, cell.folder))
    else:
        run = _figures_of_result(results.get(cell.folder))
    failure = campaigns.read_failure(folder, cell.folder)
    state, reason = CellState.WAITING, failure
    if run is not None and run.finished:
        state, reason = CellState.FINISHED, run.stop_reason
    elif failure:
        state = CellState.FAILED
    elif run is not None:
        state, reason = CellState.BEGUN, run.stop_reason
    return CellFigures(
        task=cell.task.name,
        contender=cell.column,
        repeat=cell.repeat,
        folder=cell.folder,
        run_seed=cell.run_seed,
        state=state,
        reason=reason,
        speedup=run.speedup_at(Cut()) if run else None,
        run=run,
    )


def _standings(plan: CampaignPlan, cells: Sequence[CellFigures]) -> tuple[Standing, ...]:
    return tuple(
        _standing(name, cut, [cell for cell in cells if cell.contender == name])
        for cut in _cuts(plan, cells)
        for name in plan.columns()
    )


def _standing(contender: str, cut: Cut, cells: Sequence[CellFigures]) -> Standing:
    repeats: list[list[float | None]] = [[] for _ in {cell.repeat for cell in cells}]
    for cell in cells:
        repeats[cell.repeat].append(cell.run.speedup_at(cut) if cell.run else None)
    reached = sum(cell.state is CellState.FAILED or (cell.run is not None and cell.run.reaches(cut)) for cell in cells)
    return standing(contender, cut, repeats, reached)


def _cuts(plan: CampaignPlan, cells: Sequence[CellFigures]) -> list[Cut]:
    """The cuts that at least one run got to, then the end."""
    runs = [cell.run for cell in cells if cell.run is not None]
    queries = max((run.spend.queries for run in runs), default=0)
    usd = max((run.spend.usd for run in runs), default=0.0)
    cuts = [Cut(Axis.QUERIES, float(at)) for at in plan.campaign.query_cuts if at <= queries]
    cuts += [Cut(Axis.USD, at) for at in plan.campaign.usd_cuts if at <= usd]
    return [*cuts, Cut()]


def _trajectories(plan: CampaignPlan, cells: Sequence[CellFigures], spend: Spend) -> tuple[Trajectory, ...]:
    axes = (Axis.QUERIES, Axis.USD) if spend.usd > 0 else (Axis.QUERIES,)
    return tuple(
        trajectory(name, axis, [cell.run.rises if cell.run else () for cell in cells if cell.contender == name])
        for axis in axes
        for name in plan.columns()
    )
