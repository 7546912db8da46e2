"""Whose turn it is: the runs of a campaign take slices, so that at any moment each has had about the same share.

Knows what each run has used and what its fair part is. Does not know journals, money in flight or how a run goes on.

A run's *level* is the share of its fair part that it has used: of its own query budget, and of the campaign's queries
and money divided by all runs; the largest of these counts. The run with the lowest level goes first, for one slice (a
tenth of its part, at least one turn of everything it keeps in flight). No run begins a slice more than one slice above
the lowest, so that all levels lie within two slices of each other, also when the money ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pike.core.campaign import CampaignPlan, Cell
from pike.engine.memory import Memory
from pike.report.campaign import CellState, RunFigures
from pike.report.standings import Cut

SLICES = 10
"""Turns in which a run uses its part, so about how often its journal is read back."""


@dataclass(slots=True)
class Contestant:
    """One run as the campaign sees it.

    Attributes:
        cell: which run.
        index: its place in the plan, which breaks ties.
        state: how far it got; `WAITING` and `BEGUN` ones can be given a turn.
        reason: why it failed, or why asking stopped.
        is_open: it has its turn now.
        queries: budgeted queries asked, as of its last turn.
        usd: money spent, as of its last turn.
        held_usd: what the budget counts beside it.
        best: the best speedup so far, None before a valid candidate.
        memory: its state while it is open.
    """

    cell: Cell
    index: int
    state: CellState = CellState.WAITING
    reason: str = ""
    is_open: bool = False
    queries: int = 0
    usd: float = 0.0
    held_usd: float = 0.0
    best: float | None = None
    memory: Memory | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether another turn would bring something."""
        return self.state in (CellState.WAITING, CellState.BEGUN)

    def take_figures(self, run: RunFigures) -> None:
        """Take over what an earlier process left."""
        self.queries, self.usd, self.held_usd = run.spend.queries, run.spend.usd, run.held_usd
        self.best = run.speedup_at(Cut())
        self.state = CellState.FINISHED if run.finished else CellState.BEGUN
        self.reason = run.stop_reason

    def look(self) -> None:
        """Bring the figures up to date while it is open."""
        if self.memory is None:
            return
        accounts, best = self.memory.accounts, self.memory.best
        self.queries, self.usd, self.held_usd = accounts.spend.queries, accounts.spend.usd, accounts.held_usd
        self.best = best.evaluation.speedup if best else None


class Turns:
    """Decides who goes next and for how long."""

    def __init__(self, plan: CampaignPlan, contestants: Iterable[Contestant]) -> None:
        self.all = tuple(contestants)
        campaign, budget = plan.campaign, plan.run.budget
        count = max(1, len(self.all))
        parts = [budget.queries] if campaign.queries is None else [budget.queries, campaign.queries / count]
        self._queries = max(1.0, min(parts))
        usd = [budget.usd] if campaign.usd is None else [budget.usd, campaign.usd / count]
        self._usd = min((part for part in usd if part), default=None)
        self.slice = max(1.0 / SLICES, plan.run.engine.concurrency / self._queries)

    def level(self, contestant: Contestant) -> float:
        """The share of its fair part that a run has used."""
        contestant.look()
        usd = contestant.usd / self._usd if self._usd else 0.0
        return max(contestant.queries / self._queries, usd)

    def next(self, closing: bool) -> Contestant | None:
        """Who gets a turn now, None where nobody should before somebody else has caught up.

        Args:
            closing: the campaign's budget is spent: what has begun is brought to its end, nothing begins.
        """
        idle = [one for one in self.all if one.can_go_on and not one.is_open]
        if closing:
            return next((one for one in idle if one.state is CellState.BEGUN), None)
        best = min(idle, key=lambda one: (self.level(one), one.index), default=None)
        return best if best is not None and self.level(best) <= self._lowest() + self.slice else None

    def goes_on(self, contestant: Contestant) -> bool:
        """Whether a run whose slice is used up may go on at once, because it would be the next anyway."""
        level = self.level(contestant)
        waiting = any(one.can_go_on and not one.is_open and self.level(one) <= level for one in self.all)
        return not waiting and level <= self._lowest() + self.slice

    def _lowest(self) -> float:
        return min((self.level(one) for one in self.all if one.can_go_on), default=0.0)
