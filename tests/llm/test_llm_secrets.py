"""A key never shows up in what a run prints, logs or records, whatever goes wrong."""

import asyncio
import logging
import sys
import traceback

import pytest

from pike.core.errors import PikeError
from pike.core.settings.config import LlmConfig
from pike.llm import connect, key_variables
from pike.llm.fake_server import FakeReply, FakeServer, Fault
from pike.llm.redact import redact

MARKER = "sk-MARKER-d41d8cd98f00b204"

FAILURES = [
    FakeReply(status=status, message="your key {key} (Bearer {key}) is wrong")
    for status in (400, 401, 403, 404, 422, 429, 500)
] + [FakeReply("the key is {key}", fault=fault, message="{key}") for fault in Fault if fault is not Fault.NONE]

NAMES = [
    "openai:gpt-5",
    "anthropic:claude-opus-4-6",
    "google:gemini-2.5-pro",
    "openrouter:google/gemini-2.5-pro",
    "openai:own@{url}",
]


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in key_variables():
        monkeypatch.setenv(name, MARKER)


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
async def test_no_failure_shows_a_key(name, play_provider, ask, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with FakeServer(FAILURES, keys=("another",)) as server:
        play_provider(server)
        client = connect(name.format(url=server.url), LlmConfig(timeout_seconds=2.0))
        calls = [client.complete(ask()) for _ in FAILURES] + [client.check()]
        outcomes = [(await asyncio.gather(call, return_exceptions=True))[0] for call in calls]
        assert len(server.requests) == len(FAILURES)
        assert all(MARKER in str(dict(request.headers)) for request in server.requests), "the test sent no key"
        shown = [client.name, repr(client), str(client)]
        await client.aclose()
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(errors) >= len(FAILURES) - 3
    assert all(isinstance(error, PikeError) for error in errors)
    assert not [error for error in errors if error.__cause__ or error.__context__], "an SDK's error holds headers"
    shown += [line for error in errors for line in (str(error), repr(error), *traceback.format_exception(error))]
    shown += [repr(outcome) for outcome in outcomes]
    shown += [caplog.text, *capfd.readouterr()]
    assert not [text for text in shown if MARKER in text]


async def test_a_program_that_prints_its_environment_shows_no_key(ask):
    code = "import os; raise SystemExit(os.environ['OPENAI_API_KEY'])"
    client = connect(f'command:{sys.executable} -c "{code}"', LlmConfig())
    with pytest.raises(PikeError) as caught:
        await client.complete(ask())
    assert MARKER not in str(caught.value)


def test_keys_that_a_provider_starred_out_are_removed_too():
    assert "MARK" not in redact("Incorrect API key provided: sk-MARK*******************8f00.")


def test_long_texts_are_cut_to_one_line():
    text = redact("line\n" * 1000)
    assert "\n" not in text
    assert len(text) <= 400
