"""Reasoning effort reaches the provider in its own words, and only where it was asked for."""

from dataclasses import replace

import pytest

from pike.core.errors import ProviderError
from pike.core.query import ReasoningEffort
from pike.core.settings.config import LlmConfig
from pike.llm import connect
from pike.llm.fake_server import FakeReply, FakeServer


@pytest.fixture
async def body_sent(monkeypatch, play_provider, ask):
    """A function that asks a model at an effort and gives the request's body."""

    async def send(name, variable, effort):
        monkeypatch.setenv(variable, "sk-good")
        with FakeServer() as server:
            play_provider(server)
            client = connect(name.format(url=server.url), LlmConfig())
            await client.complete(replace(ask(), effort=effort))
            await client.aclose()
            return server.requests[0].body

    return send


HIGH, OFF = ReasoningEffort.HIGH, ReasoningEffort.OFF


@pytest.mark.parametrize(
    ("name", "variable", "effort", "said"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", HIGH, {"reasoning": {"effort": "high"}}),
        ("anthropic:claude-opus-4-6", "ANTHROPIC_API_KEY", HIGH, {"output_config": {"effort": "high"}}),
        (
            "openrouter:google/gemini-2.5-pro",
            "OPENROUTER_API_KEY",
            HIGH,
            {"reasoning": {"effort": "high", "enabled": True}},
        ),
        ("openai:own@{url}", "OPENAI_API_KEY", HIGH, {"reasoning_effort": "high"}),
        ("openai:own@{url}", "OPENAI_API_KEY", OFF, {"reasoning_effort": "none"}),
    ],
)
async def test_every_provider_is_told_in_its_own_words(body_sent, name, variable, effort, said):
    body = await body_sent(name, variable, effort)
    assert {key: body.get(key) for key in said} == said


async def test_google_has_a_budget_of_thinking_tokens(body_sent):
    body = await body_sent("google:gemini-2.5-pro", "GOOGLE_API_KEY", HIGH)
    assert body["generationConfig"]["thinkingConfig"]["thinking_budget"] > 10_000


async def test_without_an_effort_nothing_is_said(body_sent):
    body = await body_sent("openai:own@{url}", "OPENAI_API_KEY", ReasoningEffort.DEFAULT)
    assert not {"reasoning_effort", "reasoning", "thinking"} & body.keys()


async def test_a_model_that_takes_no_effort_is_asked_without(ask):
    refusal = FakeReply(status=400, message="Unrecognized request argument supplied: reasoning_effort")
    with FakeServer([refusal]) as server:
        client = connect(f"openai:own@{server.url}", LlmConfig())
        query = replace(ask(), effort=HIGH)
        with pytest.raises(ProviderError, match="effort") as caught:
            await client.complete(query)
        assert caught.value.transient
        assert (await client.complete(query)).text == "hello"
        await client.aclose()
        assert ["reasoning_effort" in request.body for request in server.requests] == [True, False]
