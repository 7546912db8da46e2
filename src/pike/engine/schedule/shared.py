"""What the runs of a campaign share while they are open: models, originals, budget, slices.

Knows that a run closes what it was given, and keeps that from ending what others use. Does not know
which run is next (`turns`).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from pike.core.query import Answer, Query
from pike.core.settings.config import LlmConfig
from pike.core.task import Task
from pike.engine.output.originals import OriginalModel
from pike.engine.run.agents import Connect
from pike.engine.schedule.turns import CellProgress, Turns
from pike.engine.state.ledger import SharedBudget
from pike.engine.state.pace import FreePace, Pace
from pike.engine.state.run_state import RunState
from pike.llm.client import Client, Price
from pike.llm.names import parse

Load = Callable[[Task], OriginalModel]


class SharedClients:
    """One connection to each provider's model for all runs, its key checked once.

    Scripts, commands and recordings are opened by each run for itself: they cost nothing, and a
    script counts the errors that it has raised.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._clients: dict[tuple[str, float], _SharedClient] = {}

    def connect(self, name: str, config: LlmConfig) -> Client:
        """The client for `name`, as `llm.connect`."""
        if not parse(name).asks_provider:
            return self._connect(name, config)
        key = name, config.timeout_seconds
        if key not in self._clients:
            self._clients[key] = _SharedClient(self._connect(name, config))
        return self._clients[key]

    async def end(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.end()


class _SharedClient:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._checked = False

    @property
    def name(self) -> str:
        return self._client.name

    async def complete(self, query: Query) -> Answer:
        return await self._client.complete(query)

    def loses(self, query: Query) -> bool:
        return self._client.loses(query)

    def price(self) -> Price | None:
        return self._client.price()

    async def check(self) -> None:
        if not self._checked:
            await self._client.check()
            self._checked = True

    async def aclose(self) -> None:
        """Nothing: other runs go on."""

    async def end(self) -> None:
        await self._client.aclose()


class SharedOriginals:
    """Loads originals one at a time and keeps the latest few, so that memory stays flat.

    Args:
        load: loads one.
        most: how many are kept.
    """

    def __init__(self, load: Load, most: int) -> None:
        self._load = lru_cache(most)(load)
        # Loading draws from torch's global generator, which threads must not do side by side.
        self._lock = threading.Lock()

    def load(self, task: Task) -> OriginalModel:
        """The original model of a task.

        Raises:
            UserError: the task's own code fails.
        """
        with self._lock:
            return self._load(task)


Call = Callable[[], object]


@dataclass(slots=True)
class Stops:
    """Passes the wish to stop on to every cell that is open.

    Attributes:
        wished: True once the campaign or suite should stop.
    """

    wished: bool = False
    _open: list[tuple[Call, Call]] = field(default_factory=list)

    def first(self) -> None:
        """Have every cell stop cleanly, also those that open from now on."""
        self.wished = True
        for first, _ in list(self._open):
            first()

    def again(self) -> None:
        """Have every cell stop at once."""
        for _, again in list(self._open):
            again()

    def now(self) -> None:
        """Have everything stop at once, without a wish before."""
        self.first()
        self.again()

    @contextmanager
    def listen(self, first: Call, again: Call) -> Iterator[None]:
        """While it lasts, one cell hears of the wish."""
        self._open.append((first, again))
        if self.wished:
            first()
        try:
            yield
        finally:
            self._open.remove((first, again))


@dataclass(frozen=True, slots=True)
class Common:
    """What all runs look at.

    Attributes:
        shared_budget: the money.
        stops: passes on the wish to stop.
        closing: why nothing more may be asked (`queries`, `hours`), empty while something may.
        turns: what each run has had; None if runs take no slices.
    """

    shared_budget: SharedBudget
    stops: Stops
    closing: Callable[[], str]
    turns: Turns | None


class Slice:
    """One turn of one run; implements `engine.state.pace.BudgetShare`."""

    def __init__(self, common: Common, one: CellProgress) -> None:
        self._common = common
        self._one = one

    @property
    def shared_budget(self) -> SharedBudget:
        """The money that all runs spend from."""
        return self._common.shared_budget

    def opened(self, state: RunState) -> None:
        """Count the run's money and queries by its own state from now on."""
        one = self._one
        self.shared_budget.take_out(one.usd + one.held_usd)
        one.run_state = state
        one.look()
        self.shared_budget.enter(state.accounts)

    def pace(self, concurrency: int) -> Pace:
        """A free pace, for one slice if runs take slices."""
        turns, closing = self._common.turns, self._common.closing
        return FreePace(concurrency) if turns is None else SlicedPace(concurrency, turns, closing, self._one)

    def stops(self, first: Call, again: Call) -> AbstractContextManager[None]:
        """While it lasts, the run hears of the campaign's end."""
        return self._common.stops.listen(first, again)

    async def end(self) -> None:
        """The run is closed: keep what it has come to, let go of the rest."""
        one = self._one
        if one.run_state is None:
            return
        one.look()
        state, one.run_state = one.run_state, None
        await self.shared_budget.leave(state.accounts)


class SlicedPace(FreePace):
    """Ask while the slice lasts; what is in flight at its end comes home first."""

    def __init__(self, concurrency: int, turns: Turns, closing: Callable[[], str], one: CellProgress) -> None:
        super().__init__(concurrency, closing)
        self._turns = turns
        self._one = one
        self._goal = turns.level(one) + turns.slice

    def may_ask(self) -> bool:
        """Whether the slice lasts; a new one begins if no other run would be next."""
        turns, one = self._turns, self._one
        if not self.over and turns.level(one) >= self._goal and turns.goes_on(one):
            self._goal += turns.slice
        return not self.over and turns.level(one) < self._goal
