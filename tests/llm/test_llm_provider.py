"""Our client against a real HTTP server, over real sockets."""

import asyncio
import socket
import time

import pytest

from pike.core.config import LlmConfig
from pike.core.errors import ProviderError, UserError
from pike.core.query import Finish
from pike.llm import connect, parse
from pike.llm.fake_server import FakeServer, Fault, Reply
from pike.llm.provider import ProviderClient

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


async def test_an_answer_brings_text_tokens_and_latency_and_no_guessed_price(client, ask):
    reply = Reply("```python\nx\n```", input_tokens=1200, output_tokens=900, thinking_tokens=700, delay_seconds=0.05)
    with FakeServer([reply]) as server:
        answer = await client(server).complete(ask())
        sent = server.requests[0]
    assert answer.text == reply.text
    assert (answer.input_tokens, answer.output_tokens, answer.thinking_tokens) == (1200, 900, 700)
    assert (answer.finish, answer.model, answer.usd) == (Finish.STOP, "fake-model", None)
    assert 0.05 <= answer.latency_seconds < 5
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user"]
    assert sent.body["messages"][1]["content"] == "make it fast"
    assert sent.body["temperature"] == 0.8
    assert 32_000 in (sent.body.get("max_tokens"), sent.body.get("max_completion_tokens"))


async def test_a_local_model_is_not_priced_as_its_namesake(client):
    with FakeServer(models=("gpt-4o",)) as server:
        assert client(server, model="gpt-4o").price() is None


async def test_without_usage_the_tokens_are_estimated_and_the_price_unknown(client, ask):
    with FakeServer([Reply("four" * 10, fault=Fault.NO_USAGE)]) as server:
        answer = await client(server).complete(ask(prompt="x" * 400))
    assert answer.output_tokens == 10
    assert answer.input_tokens >= 100
    assert answer.usd is None


@pytest.mark.parametrize(("finish", "expected"), [("length", Finish.LENGTH), ("refused", Finish.REFUSED)])
async def test_why_the_model_stopped_is_kept(client, ask, finish, expected):
    with FakeServer([Reply("partial", finish=finish)]) as server:
        answer = await client(server).complete(ask())
    assert answer.finish is expected


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=408),
        Reply(status=429),
        Reply(status=500),
        Reply(status=502),
        Reply(status=503),
        Reply(status=529),
        Reply(fault=Fault.DROP),
        Reply(fault=Fault.DROP_MID_BODY),
        Reply(fault=Fault.MALFORMED_JSON),
        Reply(fault=Fault.NOT_JSON),
        Reply(fault=Fault.EMPTY_CHOICES),
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
    with FakeServer([Reply(fault=Fault.NOT_JSON)]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert "cannot be read" in str(caught.value)
    assert "proxy" in str(caught.value) and "/v1" in str(caught.value)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0", 0.0), (None, None), ("soon", None)])
async def test_retry_after_is_read(client, ask, header, seconds):
    with FakeServer([Reply(status=429, retry_after=header)]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert caught.value.retry_after_seconds == seconds


async def test_a_hanging_server_is_a_transient_timeout(client, ask):
    with FakeServer([Reply(fault=Fault.HANG)]) as server:
        started = time.monotonic()
        with pytest.raises(ProviderError, match="in time") as caught:
            await client(server, timeout_seconds=0.3).complete(ask())
        assert time.monotonic() - started < 10
    assert caught.value.transient


async def test_nobody_listening_is_transient(ask):
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
        (Reply(status=401, code="invalid_api_key"), "OPENAI_API_KEY"),
        (Reply(status=403), "OPENAI_API_KEY"),
        (Reply(status=404, code="model_not_found"), "fake-model"),
        (Reply(status=402), "top it up"),
        (Reply(status=429, code="insufficient_quota"), "top it up"),
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
        Reply(status=400, code="context_length_exceeded"),
        Reply(status=400, message="unsupported parameter"),
        Reply(status=422),
    ],
    ids=["context", "400", "422"],
)
async def test_a_rejected_request_is_not_tried_again(client, ask, reply):
    with FakeServer([reply]) as server, pytest.raises(ProviderError) as caught:
        await client(server).complete(ask())
    assert not caught.value.transient


async def test_a_model_that_takes_no_temperature_is_asked_without(client, ask):
    refusal = Reply(status=400, message="Unsupported value: 'temperature' does not support 0.8 with this model.")
    with FakeServer([refusal]) as server:
        one = client(server)
        with pytest.raises(ProviderError, match="temperature") as caught:
            await one.complete(ask())
        assert caught.value.transient
        assert caught.value.retry_after_seconds == 0.0
        assert (await one.complete(ask())).text == "hello"
        assert ["temperature" in request.body for request in server.requests] == [True, False]


async def test_ten_calls_in_flight_all_learn_from_the_refusal(client, ask):
    def rule(request):
        if "temperature" in request.body:
            return Reply(status=400, message="temperature is deprecated for this model", delay_seconds=0.1)
        return Reply()

    with FakeServer(default=rule) as server:
        one = client(server)
        outcomes = await asyncio.gather(*(one.complete(ask(step_id=i)) for i in range(10)), return_exceptions=True)
        assert all(isinstance(error, ProviderError) and error.transient for error in outcomes)
        assert (await one.complete(ask())).text == "hello"


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("max_tokens is too large: 32000. This model supports at most 16384 completion tokens", 16384),
        ("Invalid 'max_output_tokens': Expected a value <= 8192, but got 32000 instead.", 8192),
    ],
)
async def test_a_lower_output_limit_is_respected(client, ask, message, limit):
    with FakeServer([Reply(status=400, message=message)]) as server:
        one = client(server)
        with pytest.raises(ProviderError) as caught:
            await one.complete(ask())
        assert caught.value.transient
        await one.complete(ask())
        last = server.requests[-1].body
    assert (last.get("max_tokens") or last.get("max_completion_tokens")) == limit


async def test_a_small_context_window_leaves_room_for_the_prompt(client, ask):
    message = "This model's maximum context length is 8192 tokens and your request has 32000 output tokens."
    with FakeServer([Reply(status=400, message=message)]) as server:
        one = client(server)
        with pytest.raises(ProviderError) as caught:
            await one.complete(ask(prompt="x" * 4000))
        assert caught.value.transient
        await one.complete(ask(prompt="x" * 4000))
        last = server.requests[-1].body
    assert 4000 < (last.get("max_tokens") or last.get("max_completion_tokens")) < 7200


async def test_many_calls_run_at_once_and_keep_their_answers_apart(client, ask):
    def rule(request):
        return Reply(text=request.body["messages"][-1]["content"], delay_seconds=0.3)

    with FakeServer(default=rule) as server:
        one = client(server)
        started = time.monotonic()
        answers = await asyncio.gather(*(one.complete(ask(prompt=f"number {i}")) for i in range(20)))
        elapsed = time.monotonic() - started
        assert server.most_in_flight >= 10
    assert [answer.text for answer in answers] == [f"number {i}" for i in range(20)]
    assert elapsed < 5.5


async def test_a_mix_of_failures_does_not_disturb_the_good_calls(client, ask):
    faults = {0: Reply(status=500), 1: Reply(fault=Fault.DROP_MID_BODY), 2: Reply(fault=Fault.MALFORMED_JSON)}

    def rule(request):
        number = int(request.body["messages"][-1]["content"])
        return faults.get(number % 4, Reply(text=str(number)))

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
    ("openai:gpt-5", "url", "OPENAI_API_KEY", 3),
    ("anthropic:claude-opus-4-6", "root", "ANTHROPIC_API_KEY", 0),
    ("google:gemini-2.5-pro", "root", "GOOGLE_API_KEY", 3),
    ("openrouter:google/gemini-2.5-pro", "url", "OPENROUTER_API_KEY", 3),
]


@pytest.fixture
async def vendor(monkeypatch):
    """A function that connects to a provider whose place the fake server takes."""
    made = []

    def make(name, server, address, variable, key="sk-good"):
        monkeypatch.setenv(variable, key)
        made.append(ProviderClient(parse(name), 5.0, getattr(server, address)))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


@pytest.mark.parametrize(("name", "address", "variable", "thinking"), VENDORS)
async def test_every_provider_answers_at_its_listed_price(vendor, ask, name, address, variable, thinking):
    with FakeServer([Reply(input_tokens=1000, output_tokens=100, thinking_tokens=3), Reply(finish="length")]) as server:
        one = vendor(name, server, address, variable)
        answer = await one.complete(ask())
        cut = await one.complete(ask())
    price = one.price()
    assert (answer.text, answer.input_tokens, answer.output_tokens) == ("hello", 1000, 100)
    assert answer.thinking_tokens == thinking
    assert answer.usd == pytest.approx(price.usd(1000, 100))
    assert answer.usd > 0
    assert cut.finish is Finish.LENGTH


@pytest.mark.parametrize(("name", "address", "variable", "thinking"), VENDORS)
async def test_every_provider_fails_in_our_words(vendor, ask, name, address, variable, thinking):
    with FakeServer(
        [Reply(status=429, retry_after="3"), Reply(fault=Fault.EMPTY_CHOICES), Reply(status=401)]
    ) as server:
        one = vendor(name, server, address, variable)
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
        await vendor("openai:gpt-5", server, "url", "OPENAI_API_KEY").complete(ask())
        assert "temperature" not in server.requests[0].body


async def test_openrouter_counts_what_was_charged(vendor, ask):
    with FakeServer([Reply(usd=0.125)]) as server:
        answer = await vendor("openrouter:google/gemini-2.5-pro", server, "url", "OPENROUTER_API_KEY").complete(ask())
    assert answer.usd == 0.125


async def test_a_model_that_the_price_list_does_not_know_has_no_price(vendor, ask):
    with FakeServer() as server:
        one = vendor("openrouter:nobody/unheard-of-model-77", server, "url", "OPENROUTER_API_KEY")
        answer = await one.complete(ask())
    assert one.price() is None
    assert answer.usd is None


def test_long_prompts_pay_the_higher_tier():
    price = ProviderClient(parse("google:gemini-2.5-pro"), 5.0).price()
    assert price.usd(1_000_000, 0) > 1_000_000 * price.input_usd_per_mtok / 1e6
    assert price.usd(1_000, 1_000) == pytest.approx(
        (1_000 * price.input_usd_per_mtok + 1_000 * price.output_usd_per_mtok) / 1e6
    )


@pytest.mark.parametrize(("name", "address", "variable", "thinking"), VENDORS)
async def test_check_finds_good_and_bad_keys_and_models_without_an_answer(vendor, name, address, variable, thinking):
    model = name.partition(":")[2]
    with FakeServer(models=(model,), keys=("sk-good",)) as server:
        await vendor(name, server, address, variable).check()
        with pytest.raises(UserError, match=variable):
            await vendor(name, server, address, variable, key="sk-wrong").check()
        with pytest.raises(UserError, match="no-such"):
            await vendor(name + "-no-such", server, address, variable).check()
        assert server.requests == (), "a check must not be charged"


@pytest.mark.parametrize(("name", "address", "variable", "thinking"), VENDORS)
async def test_a_missing_key_is_named(name, address, variable, thinking, ask):
    client = ProviderClient(parse(name), 5.0)
    for call in (client.check(), client.complete(ask())):
        with pytest.raises(UserError, match=variable):
            await call


async def test_check_of_an_own_server_that_lists_its_models_is_free(client):
    with FakeServer(models=("fake-model",)) as server:
        await client(server).check()
        assert server.requests == ()


async def test_check_of_an_unlisted_model_asks_for_a_few_tokens(client):
    with FakeServer(models=("other",), default=lambda r: Reply(status=404) if r.model == "bad" else Reply()) as server:
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
