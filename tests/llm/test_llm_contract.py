"""The contract of every client; a new one joins by being listed."""

import asyncio

import pytest

from pike.core.query import Answer
from pike.core.settings.config import LlmConfig
from pike.llm import ExternalClient, connect
from pike.llm.client import Price
from pike.llm.fake_server import FakeReply, FakeServer
from pike.llm.given import ReplayClient


def _provider(folder, server):
    return connect(f"openai:fake-model@{server.url}", LlmConfig())


def _command(folder, server):
    return connect("command:echo hello", LlmConfig())


def _scripted(folder, server):
    (folder / "script.toml").write_text('[[answer]]\ntext = "hello"\n')
    return connect(f"scripted:{folder / 'script.toml'}", LlmConfig())


def _replay(folder, server):
    return ReplayClient("replay:run", {number: Answer("hello") for number in range(20)})


def _external(folder, server):
    made = ExternalClient()
    for number in range(20):
        made.give(number, Answer("hello"))
    return made


@pytest.fixture(params=[_provider, _command, _scripted, _replay, _external], ids=lambda make: make.__name__[1:])
async def client(request, tmp_path):
    with FakeServer(default=FakeReply("hello", delay_seconds=0.02)) as server:
        made = request.param(tmp_path, server)
        yield made
        await made.aclose()


async def test_it_answers(client, ask):
    await client.check()
    answer = await client.complete(ask())
    assert answer.text.strip() == "hello"
    assert answer.usd is None or answer.usd >= 0
    assert answer.thinking_tokens <= answer.output_tokens


async def test_its_price_is_a_price_or_unknown(client):
    assert client.price() is None or isinstance(client.price(), Price)


async def test_it_can_be_asked_by_many_at_once(client, ask):
    answers = await asyncio.gather(*(client.complete(ask(step_id=number)) for number in range(10)))
    assert {answer.text.strip() for answer in answers} == {"hello"}


async def test_its_name_leads_back_to_it(client):
    assert client.name
    assert client.name == client.name.strip()


async def test_it_closes_twice(client, ask):
    await client.complete(ask())
    await client.aclose()
    await client.aclose()
