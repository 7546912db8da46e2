"""Our client against a real HTTP server, over real sockets."""

import asyncio
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pike.core.errors import ProviderError, UserError
from pike.core.query import Finish
from pike.core.settings.config import LlmConfig
from pike.core.step import Role
from pike.llm import connect, parse, require_keys
from pike.llm.client import Price
from pike.llm.fake_server import FakeReply, FakeServer, Fault

CONFIG = LlmConfig(timeout_seconds=5.0)


@pytest.fixture
async def client():
    """A function that connects to a server and is cleaned up after the test."""
    made = []

    def make(server, timeout_seconds=5.0, model="fake-model"):
        made.append(connect(f"openai:{model}@{server.url}", LlmConfig(timeout_seconds=timeout_seconds)))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


async def test_an_answer_brings_text_tokens_and_latency(client, ask):
    reply = FakeReply(
        "```python\nx\n```", input_tokens=1200, output_tokens=900, thinking_tokens=700, delay_seconds=0.05
    )
    with FakeServer([reply]) as server:
        answer = await client(server).complete(ask())
        sent = server.requests[0]
    assert answer.text == reply.text
    assert (answer.input_tokens, answer.output_tokens, answer.thinking_tokens) == (1200, 900, 700)
    assert (answer.finish, answer.model) == (Finish.STOP, "fake-model")
    assert 0.05 <= answer.latency_seconds < 5
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user"]
    assert sent.body["messages"][1]["content"] == "make it fast"
    assert sent.body["temperature"] == 0.8
    assert 32_000 in (sent.body.get("max_tokens"), sent.body.get("max_completion_tokens"))


async def test_a_local_model_is_free_and_a_distant_one_is_not_priced_as_its_namesake(client, ask):
    with FakeServer(models=("gpt-4o",)) as server:
        near = client(server, model="gpt-4o")
        assert near.price() == Price(0.0, 0.0)
        assert (await near.complete(ask())).usd == 0.0
    assert connect("openai:gpt-4o@http://gpu.example.com/v1", CONFIG).price() is None


@pytest.mark.parametrize(
    ("address", "here", "near"),
    [
        ("http://127.0.0.1:8080/v1", True, True),
        ("http://localhost:11434/v1", True, True),
        ("http://[::1]:8000/v1", True, True),
        ("http://192.168.1.20:8000/v1", False, True),
        ("http://rig.local:8000/v1", False, True),
        ("http://8.8.8.8/v1", False, False),
        ("https://api.example.com/v1", False, False),
        ("https://localhost.example.com/v1", False, False),
    ],
)
def test_what_is_local_follows_from_the_address(address, here, near):
    name = parse(f"openai:m@{address}")
    assert (name.on_this_machine, name.is_local) == (here, near)


def test_a_missing_key_is_said_without_asking_anything(monkeypatch):
    require_keys(["none", "by-hand", "command:cat", "openai:m@http://localhost:1/v1"])
    with pytest.raises(UserError, match="ANTHROPIC_API_KEY"):
        require_keys(["none", "anthropic:claude-opus-4-6"])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-some")
    require_keys(["none", "anthropic:claude-opus-4-6"])


async def test_without_usage_the_tokens_are_estimated(client, ask):
    with FakeServer([FakeReply("four" * 10, fault=Fault.NO_USAGE)]) as server:
        answer = await client(server).complete(ask(prompt="x" * 400))
    assert answer.output_tokens == 10
    assert answer.input_tokens >= 100
    assert answer.usd == 0.0, "an own server is free, however much it said"


@pytest.mark.parametrize(("finish", "expected"), [("length", Finish.LENGTH), ("refused", Finish.REFUSED)])
async def test_why_the_model_stopped_is_kept(client, ask, finish, expected):
    with FakeServer([FakeReply("partial", finish=finish)]) as server:
        answer = await client(server).complete(ask())
    assert answer.finish is expected


@pytest.mark.parametrize(
    "reply",
    [
        FakeReply(status=408),
        FakeReply(status=429),
        FakeReply(status=500),
        FakeReply(status=502),
        FakeReply(status=503),
        FakeReply(status=529),
        FakeReply(fault=Fault.DROP),
        FakeReply(fault=Fault.DROP_MID_BODY),
        FakeReply(fault=Fault.MALFORMED_JSON),
        FakeReply(fault=Fault.NOT_JSON),
        FakeReply(fault=Fault.EMPTY_CHOICES),
    ],
    ids=lambda reply: f"{reply.status}-{reply.fault.value}",
)
async def test_what_another_attempt_can_help_is_transient_and_was_sent_once(client, ask, reply):
    with FakeServer([reply]) as server:
        with pytest.raises(ProviderError) as caught:
            await client(server).complete(ask())
        assert len(server.requests) == 1, "the SDK must not retry behind the ledger's back"
    assert caught.value.transient


async def test_a_page_in_place_of_an_answer_names_what_to_look_at(client, ask):
    with FakeServer([FakeReply(fault=Fault.NOT_JSON)]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert "cannot be read" in str(caught.value)
    assert "proxy" in str(caught.value) and "/v1" in str(caught.value)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0", 0.0), (None, None), ("soon", None)])
async def test_retry_after_is_read(client, ask, header, seconds):
    with FakeServer([FakeReply(status=429, retry_after=header)]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert caught.value.retry_after_seconds == seconds


async def test_a_hanging_server_is_a_transient_timeout(client, ask):
    with FakeServer([FakeReply(fault=Fault.HANG)]) as server:
        started = time.monotonic()
        with pytest.raises(ProviderError, match=r"within llm\.timeout_seconds") as caught:
            await client(server, timeout_seconds=0.3).complete(ask())
        assert time.monotonic() - started < 10
    assert caught.value.transient


async def test_a_slow_answer_is_no_timeout_while_it_comes(client, ask):
    with FakeServer([FakeReply("slow but steady", pieces=8, pause_seconds=0.2)]) as server:
        answer = await client(server, timeout_seconds=0.7).complete(ask())
        assert server.requests[0].body["stream"] is True
    assert (answer.text, answer.finish) == ("slow but steady", Finish.STOP)
    assert (answer.input_tokens, answer.output_tokens) == (11, 7)
    assert answer.latency_seconds > 1.5


async def test_silence_in_the_middle_of_an_answer_is_a_transient_timeout(client, ask):
    reply = FakeReply("half an answer", pieces=8, fault=Fault.SILENT_MID_BODY)
    with FakeServer([reply]) as server, pytest.raises(ProviderError, match=r"within llm\.timeout_seconds") as caught:
        await client(server, timeout_seconds=0.3).complete(ask())
    assert caught.value.transient


@pytest.mark.parametrize("text", ["half an answer", "Here:\n```python\nx = 1\ny = 2\n```\n"])
async def test_a_stream_that_ends_too_early_is_a_transient_failure(client, ask, text):
    said = "the connection closed before the answer was complete"
    reply = FakeReply(text, pieces=8, fault=Fault.CLOSE_MID_BODY)
    with FakeServer([reply]) as server, pytest.raises(ProviderError, match=said) as caught:
        await client(server).complete(ask())
    assert caught.value.transient


async def test_a_stream_that_ends_without_a_reason_after_a_whole_code_block_is_an_answer(client, ask):
    whole = "```python\nx = 1\n```\n"
    with FakeServer([FakeReply(whole + "y" * len(whole), pieces=2, fault=Fault.CLOSE_MID_BODY)]) as server:
        answer = await client(server).complete(ask())
    assert answer.text.startswith(whole)
    assert answer.finish is Finish.LENGTH


@pytest.mark.parametrize("role", [Role.BRAINSTORM, Role.PLAN])
async def test_ideas_and_plans_without_a_reason_at_the_end_are_answers(client, ask, role):
    with FakeServer([FakeReply("1. fuse\n2. fold\n", pieces=4, fault=Fault.CLOSE_MID_BODY)]) as server:
        answer = await client(server).complete(ask(role=role))
    assert answer.text.startswith("1. fuse") and answer.finish is Finish.LENGTH


async def test_an_empty_answer_is_an_answer_and_not_asked_for_again(client, ask):
    with FakeServer([FakeReply("", thinking_tokens=5)]) as server:
        answer = await client(server).complete(ask())
    assert (answer.text, answer.finish, answer.output_tokens) == ("", Finish.STOP, 7)


async def test_a_server_that_does_not_stream_is_asked_for_the_whole(client, ask):
    with FakeServer([FakeReply(status=400, message="stream_options is not supported")]) as server:
        one = client(server)
        with pytest.raises(ProviderError, match="does not stream") as caught:
            await one.complete(ask())
        assert caught.value.retry_after_seconds == 0.0
        assert (await one.complete(ask())).text == "hello"
        assert not server.requests[-1].body.get("stream")


async def test_a_server_with_one_slot_is_not_sent_many_requests_at_once(client, ask):
    text = "one by one, " * 4  # the first piece comes early, so that a wait for the one before is seen as one
    with FakeServer(default=FakeReply(text, pieces=24, pause_seconds=0.05), slots=1) as server:
        one, begun = client(server), time.monotonic()
        answers = await asyncio.gather(*(one.complete(ask(step_id=i)) for i in range(6)))
        took = time.monotonic() - begun
        assert server.most_in_flight <= 3
        assert len(server.requests) == 6
    assert {answer.text for answer in answers} == {text}
    # With the waiting counted, the fourth of six in a row takes two thirds of all.
    fourth = sorted(answer.latency_seconds for answer in answers)[3]
    assert fourth < took / 2, "a request that waits here is not timed"


async def test_an_address_without_a_server_is_transient(ask):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = connect(f"openai:m@http://127.0.0.1:{port}/v1", CONFIG)
    with pytest.raises(ProviderError) as caught:
        await client.complete(ask())
    assert caught.value.transient
    with pytest.raises(ProviderError, match="cannot be reached"):
        await client.check()
    await client.aclose()


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (FakeReply(status=401, code="invalid_api_key"), "OPENAI_API_KEY"),
        (FakeReply(status=403), "OPENAI_API_KEY"),
        (FakeReply(status=404, code="model_not_found"), "fake-model"),
        (FakeReply(status=402), "top it up"),
        (FakeReply(status=429, code="insufficient_quota"), "top it up"),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
async def test_what_no_attempt_can_help_is_one_sentence_for_the_user(client, ask, reply, names):
    with FakeServer([reply]) as server, pytest.raises(UserError, match=names) as caught:
        await client(server).complete(ask())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        FakeReply(status=400, code="context_length_exceeded"),
        FakeReply(status=400, message="unsupported parameter"),
        FakeReply(status=422),
    ],
    ids=["context", "400", "422"],
)
async def test_a_rejected_request_is_not_tried_again(client, ask, reply):
    with FakeServer([reply]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert not caught.value.transient


async def test_a_model_that_takes_no_temperature_is_asked_without(client, ask):
    refusal = FakeReply(status=400, message="Unsupported value: 'temperature' does not support 0.8 with this model.")
    with FakeServer([refusal]) as server:
        one = client(server)
        with pytest.raises(ProviderError, match="temperature") as caught:
            await one.complete(ask())
        assert caught.value.transient
        assert caught.value.retry_after_seconds == 0.0
        assert (await one.complete(ask())).text == "hello"
        assert ["temperature" in request.body for request in server.requests] == [True, False]


async def test_calls_in_flight_all_learn_from_the_refusal(client, ask):
    def rule(request):
        if "temperature" in request.body:
            return FakeReply(status=400, message="temperature is deprecated for this model", delay_seconds=0.1)
        return FakeReply()

    with FakeServer(default=rule) as server:
        one = client(server)
        outcomes = await asyncio.gather(*(one.complete(ask(step_id=i)) for i in range(10)), return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, ProviderError)]
        assert refused and all(error.transient for error in refused)
        assert {one.text for one in outcomes if one not in refused} == {"hello"}
        assert (await one.complete(ask())).text == "hello"


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("max_tokens is too large: 32000. This model supports at most 16384 completion tokens", 16384),
        ("Invalid 'max_output_tokens': Expected a value <= 8192, but got 32000 instead.", 8192),
    ],
)
async def test_a_lower_output_limit_is_respected(client, ask, message, limit):
    with FakeServer([FakeReply(status=400, message=message)]) as server:
        one = client(server)
        with pytest.raises(ProviderError) as caught:
            await one.complete(ask())
        assert caught.value.transient
        await one.complete(ask())
        last = server.requests[-1].body
    assert (last.get("max_tokens") or last.get("max_completion_tokens")) == limit


async def test_a_small_context_window_leaves_room_for_the_prompt(client, ask):
    message = "This model's maximum context length is 8192 tokens and your request has 32000 output tokens."
    with FakeServer([FakeReply(status=400, message=message)]) as server:
        one = client(server)
        with pytest.raises(ProviderError) as caught:
            await one.complete(ask(prompt="x" * 4000))
        assert caught.value.transient
        await one.complete(ask(prompt="x" * 4000))
        last = server.requests[-1].body
    assert 4000 < (last.get("max_tokens") or last.get("max_completion_tokens")) < 7200


async def test_a_prompt_beyond_the_window_is_refused_with_the_cure(client, ask):
    message = "request (1397 tokens) exceeds the available context size (1024 tokens), try increasing it"
    said = pytest.raises(ProviderError, match=r"\(1024 tokens\).*set prompt\.most_tokens")
    with FakeServer([FakeReply(status=400, message=message)]) as server, said as caught:
        await client(server).complete(ask())
    assert not caught.value.transient


async def test_many_calls_run_at_once_and_keep_their_answers_apart(client, ask):
    def rule(request):
        return FakeReply(text=request.body["messages"][-1]["content"], delay_seconds=0.3)

    with FakeServer(default=rule) as server:
        one = client(server)
        started = time.monotonic()
        answers = await asyncio.gather(*(one.complete(ask(prompt=f"number {i}")) for i in range(40)))
        elapsed = time.monotonic() - started
        assert server.most_in_flight >= 10
    assert [answer.text for answer in answers] == [f"number {i}" for i in range(40)]
    assert elapsed < 8


async def test_a_mix_of_failures_does_not_disturb_the_good_calls(client, ask):
    faults = {
        0: FakeReply(status=500),
        1: FakeReply(fault=Fault.DROP_MID_BODY),
        2: FakeReply(fault=Fault.MALFORMED_JSON),
    }

    def rule(request):
        number = int(request.body["messages"][-1]["content"])
        return faults.get(number % 4, FakeReply(text=str(number)))

    with FakeServer(default=rule) as server:
        one = client(server)
        outcomes = await asyncio.gather(*(one.complete(ask(prompt=str(i))) for i in range(16)), return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        if number % 4 == 3:
            assert outcome.text == str(number)
        else:
            assert isinstance(outcome, ProviderError)


async def test_a_key_is_sent_to_an_own_server_only_if_set(client, ask, monkeypatch):
    with FakeServer() as server:
        await client(server).complete(ask())
        monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
        await client(server).complete(ask())
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent[0] != "Bearer "
    assert sent[1] == "Bearer sk-own"


VENDORS = [
    ("openai:gpt-5", "OPENAI_API_KEY", 3),
    ("anthropic:claude-opus-4-6", "ANTHROPIC_API_KEY", 0),
    ("google:gemini-2.5-pro", "GOOGLE_API_KEY", 3),
    ("openrouter:google/gemini-2.5-pro", "OPENROUTER_API_KEY", 3),
]


@pytest.fixture
async def vendor(monkeypatch, play_provider):
    """A function that connects to a provider whose place the fake server takes."""
    made = []

    def make(name, server, variable, key="sk-good"):
        play_provider(server)
        monkeypatch.setenv(variable, key)
        made.append(connect(name, CONFIG))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


@pytest.mark.parametrize(("name", "variable", "thinking"), VENDORS)
async def test_every_provider_answers_at_its_listed_price(vendor, ask, name, variable, thinking):
    with FakeServer(
        [FakeReply(input_tokens=1000, output_tokens=100, thinking_tokens=3), FakeReply(finish="length")]
    ) as server:
        one = vendor(name, server, variable)
        answer = await one.complete(ask())
        cut = await one.complete(ask())
    price = one.price()
    assert (answer.text, answer.input_tokens, answer.output_tokens) == ("hello", 1000, 100)
    assert answer.thinking_tokens == thinking
    assert answer.usd == pytest.approx(price.usd(1000, 100))
    assert answer.usd > 0
    assert cut.finish is Finish.LENGTH


@pytest.mark.parametrize(("name", "variable", "thinking"), VENDORS)
async def test_every_provider_fails_in_our_words(vendor, ask, name, variable, thinking):
    with FakeServer(
        [FakeReply(status=429, retry_after="3"), FakeReply(fault=Fault.EMPTY_CHOICES), FakeReply(status=401)]
    ) as server:
        one = vendor(name, server, variable)
        with pytest.raises(ProviderError) as caught:
            await one.complete(ask())
        assert (caught.value.transient, caught.value.retry_after_seconds) == (True, 3.0)
        nothing = (await asyncio.gather(one.complete(ask()), return_exceptions=True))[0]
        assert nothing.transient if isinstance(nothing, ProviderError) else nothing.text == ""
        with pytest.raises(UserError, match=variable):
            await one.complete(ask())
        assert len(server.requests) == 3


async def test_a_reasoning_model_is_not_sent_a_temperature(vendor, ask):
    with FakeServer() as server:
        await vendor("openai:gpt-5", server, "OPENAI_API_KEY").complete(ask())
        assert "temperature" not in server.requests[0].body


async def test_openrouter_counts_what_was_charged(vendor, ask):
    with FakeServer([FakeReply(usd=0.125)]) as server:
        answer = await vendor("openrouter:google/gemini-2.5-pro", server, "OPENROUTER_API_KEY").complete(ask())
    assert answer.usd == 0.125


async def test_a_model_that_the_price_list_does_not_know_has_no_price(vendor, ask):
    with FakeServer() as server:
        one = vendor("openrouter:no-one/unheard-of-model-77", server, "OPENROUTER_API_KEY")
        answer = await one.complete(ask())
    assert one.price() is None
    assert answer.usd is None


def test_long_prompts_pay_the_higher_tier():
    price = connect("google:gemini-2.5-pro", CONFIG).price()
    assert price.usd(1_000_000, 0) > 1_000_000 * price.input_usd_per_mtok / 1e6
    assert price.usd(1_000, 1_000) == pytest.approx(
        (1_000 * price.input_usd_per_mtok + 1_000 * price.output_usd_per_mtok) / 1e6
    )


@pytest.mark.parametrize(("name", "variable", "thinking"), VENDORS)
async def test_check_finds_good_and_bad_keys_and_models_without_an_answer(vendor, name, variable, thinking):
    model = name.partition(":")[2]
    with FakeServer(models=(model,), keys=("sk-good",)) as server:
        await vendor(name, server, variable).check()
        with pytest.raises(UserError, match=variable):
            await vendor(name, server, variable, key="sk-wrong").check()
        with pytest.raises(UserError, match="no-such"):
            await vendor(name + "-no-such", server, variable).check()
        assert server.requests == (), "a check must not be charged"


@pytest.mark.parametrize(("name", "variable", "thinking"), VENDORS)
async def test_a_missing_key_is_named(name, variable, thinking, ask):
    client = connect(name, CONFIG)
    for call in (client.check(), client.complete(ask())):
        with pytest.raises(UserError, match=variable):
            await call


async def test_check_of_an_own_server_that_lists_its_models_is_free(client):
    with FakeServer(models=("fake-model",)) as server:
        await client(server).check()
        assert server.requests == ()


async def test_check_of_an_unlisted_model_asks_for_a_few_tokens(client):
    with FakeServer(
        models=("other",), default=lambda r: FakeReply(status=404) if r.model == "bad" else FakeReply()
    ) as server:
        await client(server).check()
        body = server.requests[0].body
        assert (body.get("max_tokens") or body.get("max_completion_tokens")) == 16
        with pytest.raises(UserError, match="bad"):
            await client(server, model="bad").check()


async def test_closing_twice_is_harmless_and_a_closed_client_can_be_used_again(client, ask):
    with FakeServer() as server:
        one = client(server)
        await one.complete(ask())
        await one.aclose()
        await one.aclose()
        assert (await one.complete(ask())).text == "hello"


RECORDED = [
    FakeReply(input_tokens=12_000, output_tokens=900),
    FakeReply(input_tokens=12_000, cached_tokens=11_000, output_tokens=2_500, thinking_tokens=1_800),
    FakeReply(input_tokens=40_000, cached_tokens=39_000, output_tokens=31_000, thinking_tokens=30_000, finish="length"),
]
"""A first call, one whose prompt was mostly cached, and one that was cut off while it was thinking."""


def billed(name, reply):
    """What a vendor's price page charges: fresh and cached prompt tokens, and answers with their thinking."""
    from genai_prices.data_snapshot import get_snapshot

    provider, _, model = name.partition(":")
    _, found = get_snapshot().find_provider_model(model, None, provider, None)
    listed = found.get_prices(datetime.now(UTC))
    rates = [getattr(rate, "base", rate) for rate in (listed.input_mtok, listed.cache_read_mtok, listed.output_mtok)]
    tokens = (reply.input_tokens - reply.cached_tokens, reply.cached_tokens, reply.output_tokens)
    return sum(float(rate) * count for rate, count in zip(rates, tokens, strict=True)) / 1e6


@pytest.mark.parametrize(("name", "variable", "thinking"), VENDORS[:3])
async def test_the_sum_of_calls_is_what_the_vendor_bills(vendor, ask, name, variable, thinking):
    with FakeServer(RECORDED) as server:
        one = vendor(name, server, variable)
        answers = [await one.complete(ask(step_id=i)) for i in range(len(RECORDED))]
    assert [answer.input_tokens for answer in answers] == [reply.input_tokens for reply in RECORDED]
    assert [answer.cached_tokens for answer in answers] == [reply.cached_tokens for reply in RECORDED]
    assert [answer.output_tokens for answer in answers] == [reply.output_tokens for reply in RECORDED]
    if thinking:  # Anthropic reports no thinking tokens of their own
        assert [answer.thinking_tokens for answer in answers] == [reply.thinking_tokens for reply in RECORDED]
    bill = sum(billed(name, reply) for reply in RECORDED)
    assert sum(answer.usd for answer in answers) == pytest.approx(bill, rel=0.01)


async def test_what_openrouter_charged_counts(vendor, ask):
    charged = [replace(reply, usd=0.01 * (i + 1)) for i, reply in enumerate(RECORDED)]
    with FakeServer(charged) as server:
        one = vendor("openrouter:google/gemini-2.5-pro", server, "OPENROUTER_API_KEY")
        answers = [await one.complete(ask(step_id=i)) for i in range(len(charged))]
    assert [answer.usd for answer in answers] == pytest.approx([reply.usd for reply in charged])
    assert [answer.cached_tokens for answer in answers] == [reply.cached_tokens for reply in charged]
