"""Whose turn it is in a campaign: runs take slices, so that at any moment each has had about the
same share.

Knows what each run has used and what its fair part is. Does not know journals, money in flight or
how a run goes on.

A run's *level* is the share of its fair part that it has used. Its part is its own query budget,
and the campaign's queries and money divided by all runs; the largest share counts. The run with the
lowest level goes first, for one slice. That is a tenth of its part, or at least as much as it keeps
in flight. No run begins a slice more than one slice above the lowest. So all levels lie within two
slices of each other, also when the money ends. A cell with a fixed candidate spends nothing: it is
measured at once and no run waits for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pike.core.comparison.campaign import CampaignPlan, Cell
from pike.engine.state.run_state import RunState
from pike.reporting.campaign import CellState, RunFigures
from pike.reporting.standings import Cut

SLICES = 10
"""Turns in which a run uses its part, so about how often its journal is read back."""


@dataclass(slots=True)
class CellProgress:
    """One cell as the scheduler sees it.

    Attributes:
        cell: which cell.
        index: its place in the plan, which breaks ties.
        state: how far it got; `WAITING` and `BEGUN` ones can be given a turn.
        reason: why it failed, or why asking stopped.
        is_open: it has its turn now.
        waits: it needs an external answer, which this process does not get.
        queries: budgeted queries asked, as of its last turn.
        usd: money spent, as of its last turn.
        held_usd: what the budget counts beside it.
        best: the best speedup so far, None before a valid candidate.
        run_state: the state of its run while it is open.
    """

    cell: Cell
    index: int
    state: CellState = CellState.WAITING
    reason: str = ""
    is_open: bool = False
    waits: bool = False
    queries: int = 0
    usd: float = 0.0
    held_usd: float = 0.0
    best: float | None = None
    run_state: RunState | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether another turn would bring something."""
        return not self.waits and self.state in (CellState.WAITING, CellState.BEGUN)

    def take_figures(self, run: RunFigures) -> None:
        """Take over what an earlier process left."""
        self.queries, self.usd, self.held_usd = run.spend.queries, run.spend.usd, run.held_usd
        self.best = run.speedup_at(Cut())
        self.state = CellState.FINISHED if run.finished else CellState.BEGUN
        self.reason = run.stop_reason

    def look(self) -> None:
        """Bring the figures up to date while its run is open."""
        if self.run_state is None:
            return
        accounts, best = self.run_state.accounts, self.run_state.best
        self.queries, self.usd, self.held_usd = accounts.spend.queries, accounts.spend.usd, accounts.held_usd
        self.best = best.evaluation.speedup if best else None


class Turns:
    """Decides which run goes next and for how long."""

    def __init__(self, plan: CampaignPlan, cells: Iterable[CellProgress]) -> None:
        self._cells = tuple(cells)
        self._runs = tuple(one for one in self._cells if one.cell.contender.searches)
        campaign, budget = plan.campaign, plan.run.budget
        count = max(1, len(self._runs))
        parts = [budget.queries] if campaign.queries is None else [budget.queries, campaign.queries / count]
        self._queries = max(1.0, min(parts))
        usd = [budget.usd] if campaign.usd is None else [budget.usd, campaign.usd / count]
        self._usd = min((part for part in usd if part), default=None)
        self.slice = max(1.0 / SLICES, plan.run.engine.concurrency / self._queries)

    def level(self, one: CellProgress) -> float:
        """The share of its fair part that a run has used."""
        one.look()
        usd = one.usd / self._usd if self._usd else 0.0
        return max(one.queries / self._queries, usd)

    def next(self, closing: bool) -> CellProgress | None:
        """The cell that gets a turn now, if any; when `closing`, only what has begun goes on."""
        idle = [one for one in self._cells if one.can_go_on and not one.is_open]
        if closing:
            return next((one for one in idle if one.state is CellState.BEGUN), None)
        best = min(idle, key=lambda one: (self.level(one), one.index), default=None)
        return best if best is not None and self.level(best) <= self._lowest() + self.slice else None

    def goes_on(self, one: CellProgress) -> bool:
        """Whether a run whose slice is used up would be the next anyway, and so may go on."""
        level = self.level(one)
        waiting = any(other.can_go_on and not other.is_open and self.level(other) <= level for other in self._cells)
        return not waiting and level <= self._lowest() + self.slice

    def _lowest(self) -> float:
        return min((self.level(one) for one in self._runs if one.can_go_on), default=0.0)
