"""The money: what was spent, what is in flight, and whether one more call may be made.

Knows prices, budgets and the order in which a call is journalled. Does not know what a query is for, and never
retries (`llm`).

**Context.** Calls run side by side, cost up to some ten cents each, and the process may be killed at any
moment. The budget is a promise.

**Decision.** Before a call, its worst case (an upper bound of the prompt's tokens, plus the whole output limit)
is reserved against the budget together with everything in flight, then `QuerySent` is written, then the network is
touched. An answer is written (`QueryAnswered`) before anyone reads it: from there on it is paid and never sent again.
If a reservation does not fit, the call waits for those in flight to settle lower; if it cannot fit even then, asking
stops (`OutOfBudget`). The output limit is never shrunk to fit: a cut-off answer is paid for and useless.
Totals are a fold over the journal (`Accounts`), so that a resumed run counts exactly what the first one did.

**Price.** The last few cents of a budget stay unspent. A call that was sent but has no answer in the journal (the
process was killed, or the call was cancelled) is sent again on resume; the provider may have charged it, and
nobody here can know. It is reported as `uncertain`, at its worst case, and not held against the budget,
because then a run that was killed often would end early for money that was mostly not spent. A failed call is
taken as free. An answer without a price, from a model that has one, is held against the budget at its worst case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pike.core.budget import Budget, Spend
from pike.core.errors import PikeError, UserError
from pike.core.events import Asked, Event, QueryAnswered, QueryFailed, QuerySent, Resumed
from pike.core.query import Answer, Query
from pike.llm.client import Client
from pike.llm.tokens import most_tokens

Keep = Callable[..., Awaitable[None]]
"""Writes events to the journal, folds them into memory and returns when they are durable: `await keep(*events)`."""


class OutOfBudget(Exception):
    """A signal, not an error: one more call cannot fit into the budget.

    Attributes:
        reason: `money` or `tokens`, as `Stopped` names it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Calls that were sent and never heard of again: they may have been charged.

    Attributes:
        calls: how many.
        usd: the most they cost, as far as prices are known.
        tokens: the most tokens they used.
    """

    calls: int = 0
    usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Worst:
    usd: float | None
    tokens: int


class Accounts:
    """Totals, folded from the journal's events in order.

    Attributes:
        spend: budgeted queries asked for, and what answered calls cost.
        held_usd: the worst case of answers whose price is unknown although their model has one.
    """

    def __init__(self) -> None:
        self.spend = Spend()
        self.held_usd = 0.0
        self._open: dict[tuple[int, int], _Worst] = {}
        self._lost: list[_Worst] = []

    @property
    def uncertain(self) -> Uncertain:
        """Calls without an outcome; those still in flight in this process are among them."""
        calls = [*self._lost, *self._open.values()]
        return Uncertain(len(calls), sum((call.usd or 0.0 for call in calls), 0.0), sum(call.tokens for call in calls))

    def apply(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Asked(step=step):
                self.spend += Spend(queries=step.queries)
            case QuerySent(query=query, attempt=attempt, reserved_usd=usd, reserved_tokens=tokens):
                self._open[query.step_id, attempt] = _Worst(usd, tokens)
            case QueryAnswered(step_id=step_id, attempt=attempt, answer=answer):
                self._settle(self._open.pop((step_id, attempt), None), answer)
            case QueryFailed(step_id=step_id, attempt=attempt):
                self._open.pop((step_id, attempt), None)
            case Resumed():
                self._lost.extend(self._open.values())
                self._open.clear()
            case _:
                pass

    def _settle(self, worst: _Worst | None, answer: Answer) -> None:
        tokens = answer.input_tokens + answer.output_tokens
        self.spend += Spend(usd=answer.usd or 0.0, tokens=tokens, unpriced=int(answer.usd is None))
        if answer.usd is None and worst is not None:
            self.held_usd += worst.usd or 0.0


class Purse:
    """The money that several runs spend from, each through its own ledger; the ledger of a lone run has its own purse.

    Args:
        usd: the most that all of them may spend, None for no limit.
    """

    def __init__(self, usd: float | None = None) -> None:
        self.settled = asyncio.Condition()
        self._limit_usd = usd
        self._away_usd = 0.0
        self._accounts: dict[int, Accounts] = {}
        self._in_flight: dict[int, dict[tuple[int, int], _Worst]] = {}

    @property
    def spent_usd(self) -> float:
        """What is spent or held, by the runs that are open and by those that are not."""
        return self._away_usd + sum(one.spend.usd + one.held_usd for one in self._accounts.values())

    def put_away(self, usd: float) -> None:
        """Count what a run spent that is not open."""
        self._away_usd += usd

    def take_out(self, usd: float) -> None:
        """Stop counting it: the run opens, and its accounts count from now on."""
        self._away_usd -= usd

    def enter(self, accounts: Accounts) -> None:
        """Count an open run."""
        self._accounts[id(accounts)] = accounts

    async def leave(self, accounts: Accounts) -> None:
        """Count a run as it stands now; nothing of it is in flight any more."""
        if self._accounts.pop(id(accounts), None) is not None:
            self.put_away(accounts.spend.usd + accounts.held_usd)
        self._in_flight.pop(id(accounts), None)
        async with self.settled:
            self.settled.notify_all()

    def calls_of(self, accounts: Accounts) -> dict[tuple[int, int], _Worst]:
        """The calls of one run that are in flight, for its ledger to keep."""
        return self._in_flight.setdefault(id(accounts), {})

    def holds(self, worst: _Worst, alone: bool) -> bool:
        """Whether a call fits beside everything in flight, or, if `alone`, once that has cost nothing."""
        if self._limit_usd is None or worst.usd is None:
            return True
        held = 0.0 if alone else sum(_total(calls).usd or 0.0 for calls in self._in_flight.values())
        return self.spent_usd + held + worst.usd <= self._limit_usd


class Ledger:
    """Lets a call pass only if its worst case fits; implements `llm.CallWatcher` for all roles of a run.

    Args:
        budget: the run's own limits.
        accounts: the totals so far, kept up to date by `keep`.
        keep: writes events; they are durable when it returns.
        purse: what the run shares with others.
    """

    def __init__(self, budget: Budget, accounts: Accounts, keep: Keep, purse: Purse | None = None) -> None:
        self._budget = budget
        self._accounts = accounts
        self._keep = keep
        self._purse = purse or Purse()
        self._in_flight = self._purse.calls_of(accounts)
        self._settled = self._purse.settled

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
        try:
            await self._keep(QuerySent(query, attempt, client.name, worst.usd, worst.tokens))
        except BaseException:
            await self._release(query, attempt)
            raise

    async def after(self, query: Query, attempt: int, answer: Answer) -> None:
        """Write the answer, which is paid from here on, and release what was reserved beyond its cost."""
        await self._keep(QueryAnswered(query.step_id, attempt, answer))
        await self._release(query, attempt)

    async def failed(self, query: Query, attempt: int, error: PikeError) -> None:
        """Write the failure and release the reservation."""
        await self._keep(QueryFailed(query.step_id, attempt, str(error), bool(getattr(error, "transient", False))))
        await self._release(query, attempt)

    async def _release(self, query: Query, attempt: int) -> None:
        async with self._settled:
            self._in_flight.pop((query.step_id, attempt), None)
            self._settled.notify_all()

    def _short_of(self, worst: _Worst, alone: bool) -> str | None:
        """Which limit `worst` does not fit beside what is spent and, unless `alone`, in flight; None if it fits."""
        spend, budget = self._accounts.spend, self._budget
        held = _Worst(0.0, 0) if alone else _total(self._in_flight)
        usd = spend.usd + self._accounts.held_usd + (held.usd or 0.0)
        if budget.usd is not None and worst.usd is not None and usd + worst.usd > budget.usd:
            return "money"
        if not self._purse.holds(worst, alone):
            return "money"
        if budget.tokens is not None and spend.tokens + held.tokens + worst.tokens > budget.tokens:
            return "tokens"
        return None


def _total(calls: Mapping[tuple[int, int], _Worst]) -> _Worst:
    """The worst case of all calls in flight together; money without a known price counts nothing."""
    of = calls.values()
    return _Worst(sum((call.usd or 0.0 for call in of), 0.0), sum(call.tokens for call in of))


def _worst_case(query: Query, client: Client) -> _Worst:
    prompt_tokens = most_tokens(query.system, query.prompt)
    price = client.price()
    usd = None if price is None else price.usd(prompt_tokens, query.max_output_tokens)
    return _Worst(usd, prompt_tokens + query.max_output_tokens)


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
