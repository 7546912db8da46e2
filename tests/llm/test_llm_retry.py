import asyncio
import random

import pytest

from pike.core.errors import ProviderError, UserError
from pike.core.query import Answer
from pike.core.settings.config import LlmConfig
from pike.llm import complete_with_retries, connect
from pike.llm.fake_server import FakeReply, FakeServer, Fault
from pike.llm.retry import CAP_SECONDS, RETRY_AFTER_CAP_SECONDS, pause_seconds
from pike.llm.scripted import ScriptedClient
from pike.llm.scripted.script import Line, Script


class Ledger:
    """Writes down what it is told; refuses to let more than `allowed` calls be sent."""

    def __init__(self, allowed=100):
        self.entries = []
        self.allowed = allowed

    async def before(self, query, attempt, client):
        if attempt > self.allowed:
            raise RuntimeError("no money left")
        self.entries.append(("before", attempt, client.name))

    async def after(self, query, attempt, answer):
        self.entries.append(("after", attempt, answer.text))

    async def failed(self, query, attempt, error):
        self.entries.append(("failed", attempt, type(error)))


class Naps:
    """Does not sleep, but remembers for how long."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


def scripted(*errors, text="done", retry_after_seconds=None):
    line = Line(text=text, errors=errors, retry_after_seconds=retry_after_seconds)
    return ScriptedClient("scripted:test", Script(lines=(line,)))


async def run(client, query, max_attempts=6, ledger=None):
    ledger, naps = ledger or Ledger(), Naps()
    try:
        outcome = await complete_with_retries(client, query, ledger, max_attempts, random.Random(1), sleep=naps)
    except Exception as error:
        outcome = error
    return outcome, ledger, naps


async def test_transient_failures_are_tried_again_and_each_attempt_is_written_down(ask):
    outcome, ledger, naps = await run(scripted(429, "timeout", 503), ask())
    assert outcome.text == "done"
    name = "scripted:test"
    assert ledger.entries == [
        *[e for n in (1, 2, 3) for e in (("before", n, name), ("failed", n, ProviderError))],
        ("before", 4, name),
        ("after", 4, "done"),
    ]
    assert len(naps.seconds) == 3


async def test_attempts_are_limited_and_nothing_is_slept_after_the_last(ask):
    outcome, ledger, naps = await run(scripted(500, text=""), ask(), max_attempts=3)
    assert isinstance(outcome, ProviderError)
    assert len(ledger.entries) == 6
    assert len(naps.seconds) == 2


@pytest.mark.parametrize("max_attempts", [0, 1])
async def test_at_least_one_attempt_is_made(ask, max_attempts):
    outcome, ledger, _ = await run(scripted(500, text=""), ask(), max_attempts)
    assert isinstance(outcome, ProviderError)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize(("status", "kind"), [(400, ProviderError), (401, UserError), (404, UserError)])
async def test_other_failures_are_written_down_once_and_raised(ask, status, kind):
    outcome, ledger, naps = await run(scripted(status), ask())
    assert type(outcome) is kind
    assert ledger.entries == [("before", 1, "scripted:test"), ("failed", 1, kind)]
    assert naps.seconds == []


async def test_a_ledger_that_refuses_keeps_the_call_from_being_sent(ask):
    with FakeServer() as server:
        client = connect(f"openai:m@{server.url}", LlmConfig())
        outcome, ledger, _ = await run(client, ask(), ledger=Ledger(allowed=0))
        assert server.requests == ()
        await client.aclose()
    assert isinstance(outcome, RuntimeError)
    assert ledger.entries == []


async def test_cancelling_is_not_a_failure(ask):
    with FakeServer([FakeReply(fault=Fault.HANG)]) as server:
        client, ledger = connect(f"openai:m@{server.url}", LlmConfig()), Ledger()
        task = asyncio.create_task(complete_with_retries(client, ask(), ledger, 3, random.Random(0)))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.aclose()
    assert ledger.entries == [("before", 1, client.name)]


async def test_over_real_sockets_every_kind_of_failure_is_survived(ask):
    replies = [
        FakeReply(status=429, retry_after="9"),
        FakeReply(status=500),
        FakeReply(status=503),
        FakeReply(fault=Fault.DROP),
        FakeReply(fault=Fault.DROP_MID_BODY),
        FakeReply(fault=Fault.MALFORMED_JSON),
        FakeReply(fault=Fault.EMPTY_CHOICES),
        FakeReply(fault=Fault.HANG),
        FakeReply("made it"),
    ]
    with FakeServer(replies) as server:
        client = connect(f"openai:m@{server.url}", LlmConfig(timeout_seconds=0.5))
        outcome, ledger, naps = await run(client, ask(), max_attempts=9)
        assert len(server.requests) == 9
        await client.aclose()
    assert outcome.text == "made it"
    assert [e[0] for e in ledger.entries] == ["before", "failed"] * 8 + ["before", "after"]
    assert 9 <= naps.seconds[0] <= 10


def failure(wish=None):
    return ProviderError("no", transient=True, retry_after_seconds=wish)


def test_the_back_off_doubles_up_to_its_cap_and_is_jittered():
    rng = random.Random(0)
    for attempt in range(1, 60):
        limit = min(CAP_SECONDS, 2.0 ** (attempt - 1))
        pauses = [pause_seconds(failure(), attempt, rng) for _ in range(400)]
        assert 0 <= min(pauses) < 0.1 * limit
        assert 0.9 * limit < max(pauses) <= limit


def test_the_wish_of_the_provider_is_honoured_within_reason():
    rng = random.Random(0)
    assert 20 <= pause_seconds(failure(20.0), 1, rng) <= 21
    assert RETRY_AFTER_CAP_SECONDS <= pause_seconds(failure(86_400.0), 1, rng) <= RETRY_AFTER_CAP_SECONDS + 1
    assert pause_seconds(failure(0.0), 5, rng) == 0.0


def test_the_same_rng_gives_the_same_pauses():
    first, second = ([pause_seconds(failure(), n, r) for n in (1, 2, 3)] for r in (random.Random(7), random.Random(7)))
    assert first == second


def test_an_answer_is_what_is_returned(ask):
    assert isinstance(asyncio.run(run(scripted(), ask()))[0], Answer)
