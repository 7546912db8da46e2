"""Models through their vendor's batch API: one batch, half the price, and nothing paid twice."""

from __future__ import annotations

import asyncio

import pytest

from pike.core.errors import ProviderError, UserError
from pike.core.events import BatchSent
from pike.core.query import Finish
from pike.core.settings.config import LlmConfig
from pike.llm import connect, parse, require_keys
from pike.llm.fake_server import FakeReply, FakeServer
from pike.llm.provider import BatchClient

VENDORS = [
    ("batch:openai:gpt-5", "OPENAI_API_KEY"),
    ("batch:anthropic:claude-opus-4-6", "ANTHROPIC_API_KEY"),
    ("batch:google:gemini-2.5-pro", "GOOGLE_API_KEY"),
]
every_vendor = pytest.mark.parametrize(("name", "variable"), VENDORS, ids=[name for name, _ in VENDORS])


@pytest.fixture
async def quick(monkeypatch, play_provider):
    """A function that connects to a batch API which the fake server plays, with short pauses."""
    made = []

    def make(name, server, variable):
        play_provider(server)
        monkeypatch.setenv(variable, "sk-good")
        client = connect(name, LlmConfig())
        assert isinstance(client, BatchClient) and client.name == name
        client.gather_seconds, client.poll_seconds = 0.1, 0.05
        made.append(client)
        return client

    yield make
    for one in made:
        await one.aclose()


def echo(request):
    return FakeReply(text=f"to {str(request.body).count('number 1')}", input_tokens=1000, output_tokens=100)


@every_vendor
async def test_calls_that_begin_together_are_one_batch_at_half_the_price(quick, ask, name, variable):
    alone = connect(name.removeprefix("batch:"), LlmConfig()).price()
    with FakeServer(default=echo) as server:
        one = quick(name, server, variable)
        answers = await asyncio.gather(*(one.complete(ask(step_id=i, prompt=f"number {i}")) for i in range(3)))
        assert server.batches.jobs == 1 and len(server.requests) == 3
        assert [answer.text for answer in answers] == ["to 0", "to 1", "to 0"]
    assert answers[0].usd == pytest.approx(alone.usd(1000, 100) / 2)
    assert one.price().usd(1000, 100) == pytest.approx(alone.usd(1000, 100) / 2)
    assert (answers[0].input_tokens, answers[0].output_tokens, answers[0].finish) == (1000, 100, Finish.STOP)


@every_vendor
async def test_a_batch_is_journalled_before_it_is_sent_and_collected_by_another_process(quick, ask, name, variable):
    kept = []
    with FakeServer([FakeReply("kept"), FakeReply("late")]) as server:
        server.batches.held = True

        async def keep(event):
            kept.append((event, server.batches.jobs))

        first = quick(name, server, variable)
        first.go_on(keep, {})
        calls = [asyncio.ensure_future(first.complete(ask(step_id=i))) for i in (4, 7)]
        while not (len(kept) == 2 and server.batches.looks):
            await asyncio.sleep(0.02)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        (before, jobs_before), (after, _) = kept
        assert before == BatchSent(name, (4, 7)) and jobs_before == 0
        assert after.steps == (4, 7) and "sk-good" not in after.handle
        server.batches.held = False
        second = quick(name, server, variable)
        second.go_on(keep, dict.fromkeys(after.steps, after.handle))
        answers = await asyncio.gather(*(second.complete(ask(step_id=i)) for i in (4, 7)))
        assert [answer.text for answer in answers] == ["kept", "late"]
        assert server.batches.jobs == 1 and len(server.requests) == 2 and len(kept) == 2


@every_vendor
async def test_a_call_that_fails_in_a_batch_fails_alone(quick, ask, name, variable):
    def rule(request):
        return FakeReply(status=500, code="api_error") if "number 1" in str(request.body) else FakeReply("fine")

    with FakeServer(default=rule) as server:
        one = quick(name, server, variable)
        calls = [one.complete(ask(step_id=i, prompt=f"number {i}")) for i in range(2)]
        good, bad = await asyncio.gather(*calls, return_exceptions=True)
    assert good.text == "fine" and isinstance(bad, ProviderError) and bad.transient


async def test_a_call_that_expired_is_sent_again(quick, ask):
    with FakeServer([FakeReply("second try")]) as server:
        one = quick("batch:anthropic:claude-opus-4-6", server, "ANTHROPIC_API_KEY")
        server.batches.expired = True
        with pytest.raises(ProviderError, match="expired") as caught:
            await one.complete(ask())
        assert caught.value.transient
        server.batches.expired = False
        assert (await one.complete(ask())).text == "second try"


async def test_a_vendor_that_cannot_be_reached_is_waited_for(quick, ask):
    with FakeServer() as server:
        one = quick("batch:openai:gpt-5", server, "OPENAI_API_KEY")
        server.batches.reachable = False
        call = asyncio.ensure_future(one.complete(ask()))
        while server.batches.looks < 2:
            await asyncio.sleep(0.02)
        server.batches.reachable = True
        assert (await call).text == "hello" and server.batches.jobs == 1


async def test_a_batch_that_the_vendor_forgot_is_asked_for_anew(quick, ask):
    kept = []

    async def keep(event):
        kept.append(event)

    with FakeServer() as server:
        one = quick("batch:anthropic:claude-opus-4-6", server, "ANTHROPIC_API_KEY")
        one.go_on(keep, {})
        await one.complete(ask(step_id=3))
        server.batches.forget()
        later = quick("batch:anthropic:claude-opus-4-6", server, "ANTHROPIC_API_KEY")
        later.go_on(keep, {3: kept[-1].handle})
        with pytest.raises(ProviderError, match=r"no batch .* any more") as caught:
            await later.complete(ask(step_id=3))
        assert caught.value.transient
        assert (await later.complete(ask(step_id=3))).text == "hello"


@pytest.mark.parametrize("name", ["batch:openrouter:x/y", "batch:openai:m@http://localhost:1/v1", "batch:none"])
def test_who_has_no_batch_api_is_said(name):
    with pytest.raises(UserError, match="has no batch API: give batch:VENDOR:MODEL of openai or anthropic or google"):
        parse(name)


def test_a_missing_key_is_said_as_for_one_call():
    assert parse("batch:google:gemini-2.5-pro").text == "batch:google:gemini-2.5-pro"
    with pytest.raises(UserError, match="GOOGLE_API_KEY"):
        require_keys(["batch:google:gemini-2.5-pro"])
