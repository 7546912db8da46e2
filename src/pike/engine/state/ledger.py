"""The money: what was spent, what is in flight, and whether one more call may be made.

Knows prices, budgets and the order in which a call is journalled (ADR 0003). Does not know what a
query is for, and never retries (`llm`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from pike.core.accounts import Accounts, WorstCase
from pike.core.errors import PikeError, UserError
from pike.core.events import QueryAnswered, QueryFailed, QuerySent
from pike.core.query import Answer, Query
from pike.core.settings.budget import Budget
from pike.llm.client import Client
from pike.llm.tokens import most_tokens

Keep = Callable[..., Awaitable[None]]
"""Journals events, folds them into the run's state and returns when they are durable."""


class OutOfBudget(Exception):
    """A signal, not an error: one more call cannot fit into the budget.

    Attributes:
        reason: `money` or `tokens`, as `Stopped` names it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SharedBudget:
    """The money that several runs spend from, each through its own ledger.

    Args:
        usd: the most that all of them may spend, None for no limit.
    """

    def __init__(self, usd: float | None = None) -> None:
        self.settled = asyncio.Condition()
        self._limit_usd = usd
        self._away_usd = 0.0
        self._accounts: dict[int, Accounts] = {}
        self._in_flight: dict[int, dict[tuple[int, int], WorstCase]] = {}

    @property
    def spent_usd(self) -> float:
        """What all runs spent or hold, open or closed."""
        return self._away_usd + sum(one.spend.usd + one.held_usd for one in self._accounts.values())

    def put_away(self, usd: float) -> None:
        """Count what a closed run spent."""
        self._away_usd += usd

    def take_out(self, usd: float) -> None:
        """Stop counting it: the run opens, and its accounts count instead."""
        self._away_usd -= usd

    def enter(self, accounts: Accounts) -> None:
        """Count an open run."""
        self._accounts[id(accounts)] = accounts

    async def leave(self, accounts: Accounts) -> None:
        """Count a run as it stands now; it has nothing in flight any more."""
        if self._accounts.pop(id(accounts), None) is not None:
            self.put_away(accounts.spend.usd + accounts.held_usd)
        self._in_flight.pop(id(accounts), None)
        async with self.settled:
            self.settled.notify_all()

    def calls_of(self, accounts: Accounts) -> dict[tuple[int, int], WorstCase]:
        """The calls of one run that are in flight; its ledger keeps this up to date."""
        return self._in_flight.setdefault(id(accounts), {})

    def holds(self, worst: WorstCase, alone: bool) -> bool:
        """Whether a call fits beside everything in flight or, if `alone`, without it."""
        if self._limit_usd is None or worst.usd is None:
            return True
        held = 0.0 if alone else sum(_total(calls).usd or 0.0 for calls in self._in_flight.values())
        return self.spent_usd + held + worst.usd <= self._limit_usd


class Ledger:
    """Lets a call pass only if its worst case fits; the `llm.CallWatcher` of a run.

    Args:
        keep: writes events; they are durable when it returns.
        shared_budget: what the run shares with others; None where it stands alone.
    """

    def __init__(
        self, budget: Budget, accounts: Accounts, keep: Keep, shared_budget: SharedBudget | None = None
    ) -> None:
        self._budget = budget
        self._accounts = accounts
        self.keep = keep
        self._shared_budget = shared_budget or SharedBudget()
        self._in_flight = self._shared_budget.calls_of(accounts)
        self._settled = self._shared_budget.settled
        self._asked: dict[int, tuple[Client, Query]] = {}

    def loses(self, step_id: int) -> bool:
        """Whether a step has a call under way whose answer is paid, and lost if it is cancelled."""
        asked = self._asked.get(step_id)
        return asked is not None and asked[0].loses(asked[1])

    async def before(self, query: Query, attempt: int, client: Client) -> None:
        """Reserve the worst case and write that the call is about to be sent.

        Raises:
            OutOfBudget: the call cannot fit, whatever those in flight will cost.
            StoreError: the journal cannot be written; nothing was reserved.
        """
        worst = _worst_case(query, client)
        async with self._settled:
            while (short := self._short_of(worst, alone=False)) is not None:
                if self._short_of(worst, alone=True) is not None:
                    raise OutOfBudget(short)
                await self._settled.wait()
            # No await from the check to here: another call cannot slip in between.
            self._in_flight[query.step_id, attempt] = worst
            self._asked[query.step_id] = client, query
        try:
            await self.keep(QuerySent(query, attempt, client.name, worst.usd, worst.tokens))
        except BaseException:
            await self._release(query, attempt)
            raise

    async def after(self, query: Query, attempt: int, answer: Answer) -> None:
        """Write the answer, which is paid from here on, and release the reservation."""
        await self.keep(QueryAnswered(query.step_id, attempt, answer))
        await self._release(query, attempt)

    async def failed(self, query: Query, attempt: int, error: PikeError) -> None:
        """Write the failure and release the reservation."""
        await self.keep(QueryFailed(query.step_id, attempt, str(error), bool(getattr(error, "transient", False))))
        await self._release(query, attempt)

    async def _release(self, query: Query, attempt: int) -> None:
        async with self._settled:
            self._in_flight.pop((query.step_id, attempt), None)
            self._asked.pop(query.step_id, None)
            self._settled.notify_all()

    def _short_of(self, worst: WorstCase, alone: bool) -> str | None:
        """The limit that `worst` exceeds beside all spent and, unless `alone`, in flight; else
        None."""
        spend, budget = self._accounts.spend, self._budget
        held = WorstCase(0.0, 0) if alone else _total(self._in_flight)
        usd = spend.usd + self._accounts.held_usd + (held.usd or 0.0)
        if budget.usd is not None and worst.usd is not None and usd + worst.usd > budget.usd:
            return "money"
        if not self._shared_budget.holds(worst, alone):
            return "money"
        if budget.tokens is not None and spend.tokens + held.tokens + worst.tokens > budget.tokens:
            return "tokens"
        return None


def _total(calls: Mapping[tuple[int, int], WorstCase]) -> WorstCase:
    """The worst case of all these calls; money without a known price counts nothing."""
    of = calls.values()
    return WorstCase(sum((call.usd or 0.0 for call in of), 0.0), sum(call.tokens for call in of))


def _worst_case(query: Query, client: Client) -> WorstCase:
    prompt_tokens = most_tokens(query.system, query.prompt)
    price = client.price()
    usd = None if price is None else price.usd(prompt_tokens, query.max_output_tokens)
    return WorstCase(usd, prompt_tokens + query.max_output_tokens)


def require_cap(budget: Budget, client: Client) -> None:
    """Check that a money budget can be kept with this client.

    Raises:
        UserError: there is a money budget, no token budget, and the client's price is unknown.
    """
    if budget.usd is not None and budget.tokens is None and client.price() is None:
        raise UserError(
            f"The price of {client.name} is unknown, so a budget of ${budget.usd:g} cannot be kept: "
            "give a token budget too, for example --set budget.tokens=5000000"
        )
