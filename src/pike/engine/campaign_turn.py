"""One turn of one run: what the run takes from its campaign while it is open.

Knows the slice, the campaign's limits and the common purse. Does not know who is next (`campaign_turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from pike.core.step import Step
from pike.engine.campaign_turns import Contestant, Turns
from pike.engine.ledger import Purse
from pike.engine.memory import Memory
from pike.engine.replay import Pace

Call = Callable[[], None]


@dataclass(slots=True)
class Stops:
    """Passes the wish to stop on to every run that is open.

    Attributes:
        wished: somebody wants the campaign to stop.
    """

    wished: bool = False
    _open: list[tuple[Call, Call]] = field(default_factory=list)

    def first(self) -> None:
        """Have every run stop cleanly, also those that open from now on."""
        self.wished = True
        for first, _ in list(self._open):
            first()

    def again(self) -> None:
        """Have every run stop at once."""
        for _, again in list(self._open):
            again()

    @contextmanager
    def listen(self, first: Call, again: Call) -> Iterator[None]:
        """While it lasts, one run hears of the wish."""
        self._open.append((first, again))
        if self.wished:
            first()
        try:
            yield
        finally:
            self._open.remove((first, again))


@dataclass(frozen=True, slots=True)
class Common:
    """What all turns of a campaign look at.

    Attributes:
        purse: the money.
        turns: who has had how much.
        stops: who wants it to stop.
        closing: why nobody may ask any more (`queries`, `hours`), empty while somebody may.
    """

    purse: Purse
    turns: Turns
    stops: Stops
    closing: Callable[[], str]


class Turn:
    """Implements `engine.share.Share`."""

    def __init__(self, common: Common, contestant: Contestant, in_slices: bool) -> None:
        self._common = common
        self._contestant = contestant
        self._in_slices = in_slices

    @property
    def purse(self) -> Purse:
        """The money that all runs spend from."""
        return self._common.purse

    def opened(self, memory: Memory) -> None:
        """Count the run's money and queries by its own state from now on."""
        one = self._contestant
        self.purse.take_out(one.usd + one.held_usd)
        one.memory = memory
        one.look()
        self.purse.enter(memory.accounts)

    def pace(self, pace: Pace) -> Pace:
        """`pace`, for one slice."""
        return SlicedPace(pace, self._common, self._contestant) if self._in_slices else pace

    def stops(self, first: Call, again: Call) -> AbstractContextManager[None]:
        """The run hears of the campaign's end."""
        return self._common.stops.listen(first, again)

    async def end(self) -> None:
        """The run is closed: keep what it has come to, let go of the rest."""
        one = self._contestant
        if one.memory is None:
            return
        one.look()
        memory, one.memory = one.memory, None
        await self.purse.leave(memory.accounts)


class SlicedPace:
    """Ask while the slice lasts; what is in flight at its end comes home first."""

    def __init__(self, pace: Pace, common: Common, contestant: Contestant) -> None:
        self._pace = pace
        self._common = common
        self._contestant = contestant
        self._goal = common.turns.level(contestant) + common.turns.slice

    @property
    def limit(self) -> int | None:
        """Steps in flight at once."""
        return self._pace.limit

    @property
    def outside(self) -> bool:
        """Whether answers come from outside this process."""
        return self._pace.outside

    @property
    def over(self) -> str:
        """Why nothing more may be asked, by the run's own pace or the campaign's budget."""
        return self._pace.over or self._common.closing()

    def may_ask(self) -> bool:
        """Whether the slice lasts; a new one begins where nobody else would be next."""
        turns, one = self._common.turns, self._contestant
        if not self.over and turns.level(one) >= self._goal and turns.goes_on(one):
            self._goal += turns.slice
        return not self.over and turns.level(one) < self._goal and self._pace.may_ask()

    def asked(self, step: Step | None) -> None:
        """Take note of what the strategy gave."""
        self._pace.asked(step)

    def answers(self, step_id: int) -> bool:
        """Whether the step gets an outcome at all."""
        return self._pace.answers(step_id)

    async def turn_to_tell(self, step_id: int) -> None:
        """Wait until the outcome of a step may be told."""
        await self._pace.turn_to_tell(step_id)
