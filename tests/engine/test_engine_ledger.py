"""The money: never over the budget, whatever is in flight, and nothing paid twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import pytest

from pike.core.accounts import Accounts
from pike.core.errors import ProviderError, UserError
from pike.core.events import Event, QueryAnswered, QueryFailed, QuerySent, Resumed
from pike.core.query import Answer, Query
from pike.core.settings.budget import Budget
from pike.core.step import Role
from pike.engine.state.ledger import Ledger, OutOfBudget, require_cap
from pike.llm import complete_with_retries
from pike.llm.scripted import ScriptedClient
from pike.llm.scripted.script import Line, Script
from pike.llm.tokens import most_tokens

PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0}


def query(step: int, limit: int = 10_000) -> Query:
    return Query(step, Role.OPTIMISE, "system", "prompt", 0.8, limit)


def client(line: Line, **top: object) -> ScriptedClient:
    return ScriptedClient("scripted:x", Script(lines=(line,), **{**PRICE, **top}))  # type: ignore[arg-type]


class Books:
    """A ledger whose journal is a list."""

    def __init__(self, budget: Budget) -> None:
        self.events: list[Event] = []
        self.accounts = Accounts()
        self.ledger = Ledger(budget, self.accounts, self.keep)
        self.most_usd = 0.0

    async def keep(self, *events: Event) -> None:
        self.record(*events)

    def record(self, *events: Event) -> None:
        for event in events:
            self.events.append(event)
            self.accounts.apply(event)
        self.most_usd = max(self.most_usd, self.accounts.spend.usd + self.accounts.uncertain.usd)

    async def ask(self, who: ScriptedClient, step: int, attempts: int = 3) -> Answer:
        return await complete_with_retries(who, query(step), self.ledger, attempts, random.Random(0), sleep=_no_sleep)


async def _no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


async def gather(*calls: Awaitable[Answer]) -> list[Answer | BaseException]:
    return await asyncio.gather(*calls, return_exceptions=True)


def cost(input_tokens: int, output_tokens: int) -> float:
    return (input_tokens * 1.0 + output_tokens * 10.0) / 1e6


WORST = cost(most_tokens("system", "prompt"), 10_000)


async def test_a_call_is_written_before_it_is_sent_and_settled_at_its_real_cost() -> None:
    books = Books(Budget(usd=1.0))
    await books.ask(client(Line(text="hi", input_tokens=100, output_tokens=50)), 0)
    sent, answered = books.events
    assert isinstance(sent, QuerySent)
    assert isinstance(answered, QueryAnswered)
    assert sent.reserved_usd == pytest.approx(WORST)
    assert books.accounts.spend.usd == pytest.approx(cost(100, 50))
    assert books.accounts.spend.tokens == 150


@pytest.mark.parametrize("affordable", [1, 3, 10])
async def test_never_over_the_money_budget_with_many_in_flight(affordable: int) -> None:
    books = Books(Budget(usd=WORST * affordable))
    who = client(Line(text="x", input_tokens=70, output_tokens=10_000, delay_seconds=0.001))
    results = await gather(*(books.ask(who, step) for step in range(40)))
    assert books.most_usd <= WORST * affordable
    assert sum(isinstance(result, Answer) for result in results) == affordable
    assert all(isinstance(result, Answer | OutOfBudget) for result in results)


async def test_calls_wait_for_others_to_settle_lower_instead_of_stopping() -> None:
    books = Books(Budget(usd=WORST * 1.5))
    who = client(Line(text="x", input_tokens=10, output_tokens=10, delay_seconds=0.001))
    results = await gather(*(books.ask(who, step) for step in range(8)))
    assert all(isinstance(result, Answer) for result in results)
    assert books.most_usd <= WORST * 1.5


async def test_a_failed_call_frees_its_reservation_for_those_who_wait() -> None:
    books = Books(Budget(usd=WORST * 1.1))
    who = client(Line(text="x", input_tokens=10, output_tokens=10, errors=(429,), delay_seconds=0.001))
    results = await gather(*(books.ask(who, step) for step in range(4)))
    assert all(isinstance(result, Answer) for result in results)
    assert sum(isinstance(event, QueryFailed) for event in books.events) == 4


async def test_the_token_cap_rules_where_the_price_is_unknown() -> None:
    books = Books(Budget(usd=None, tokens=25_000))
    who = client(Line(text="x", input_tokens=100, output_tokens=9_000), unpriced=True)
    results = await gather(*(books.ask(who, step) for step in range(6)))
    refused = [result for result in results if isinstance(result, OutOfBudget)]
    assert refused
    assert {signal.reason for signal in refused} == {"tokens"}
    assert books.accounts.spend.tokens <= 25_000
    assert books.accounts.spend.unpriced == 6 - len(refused)
    assert books.accounts.spend.usd == 0


async def test_an_answer_without_a_price_is_held_at_its_worst_case() -> None:
    books = Books(Budget(usd=WORST * 1.5))

    class Forgetful(ScriptedClient):
        async def complete(self, query: Query) -> Answer:
            return Answer("x", input_tokens=1, output_tokens=1, usd=None)

    who = Forgetful("scripted:x", Script(**PRICE))  # type: ignore[arg-type]
    await books.ask(who, 0)
    with pytest.raises(OutOfBudget) as stop:
        await books.ask(who, 1)
    assert stop.value.reason == "money"
    assert books.accounts.spend.unpriced == 1


async def test_calls_that_were_never_heard_of_again_are_reported_and_asked_again() -> None:
    books = Books(Budget(usd=1.0))
    task = asyncio.create_task(books.ask(client(Line(text="x", delay_seconds=5)), 0))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    books.record(Resumed("0"))
    assert books.accounts.uncertain.calls == 1
    assert books.accounts.uncertain.usd == pytest.approx(WORST)
    await books.ask(client(Line(text="x", input_tokens=1, output_tokens=1)), 0)
    assert books.accounts.uncertain.calls == 1, "the second sending does not settle the first"


async def test_totals_are_rebuilt_from_the_journal() -> None:
    books = Books(Budget(usd=1.0))
    for step in range(3):
        await books.ask(client(Line(text="x", input_tokens=100 + step, output_tokens=7, errors=("timeout",))), step)
    again = Accounts()
    for event in books.events:
        again.apply(event)
    assert again.spend == books.accounts.spend
    assert again.uncertain == books.accounts.uncertain


async def test_a_failure_that_no_retry_mends_is_written() -> None:
    books = Books(Budget())
    with pytest.raises(ProviderError):
        await books.ask(client(Line(errors=(400,))), 0)
    assert books.events[-1] == QueryFailed(0, 1, "'scripted:x' failed as scripted: 400", False)


def test_a_money_budget_needs_a_price_or_a_token_cap() -> None:
    unpriced = client(Line(text="x"), unpriced=True)
    with pytest.raises(UserError, match=r"budget\.tokens"):
        require_cap(Budget(usd=5.0), unpriced)
    require_cap(Budget(usd=5.0, tokens=1000), unpriced)
    require_cap(Budget(usd=5.0), client(Line(text="x")))


async def test_an_answer_is_lost_only_with_a_call_that_is_under_way() -> None:
    books = Books(Budget())
    task = asyncio.create_task(books.ask(client(Line(text="x", delay_seconds=0.05)), 0))
    await asyncio.sleep(0.01)
    assert (books.ledger.loses(0), books.ledger.loses(1), books.accounts.in_flight) == (True, False, 1)
    await task
    assert (books.ledger.loses(0), books.accounts.in_flight) == (False, 0)
