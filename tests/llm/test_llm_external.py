import pytest

from pike.core.errors import ProviderError
from pike.core.query import Answer
from pike.core.settings.config import LlmConfig
from pike.llm import connect


async def test_what_was_not_said_is_estimated_but_never_money(ask):
    client = connect("by-hand", LlmConfig())
    client.give(0, Answer("x" * 400))
    client.give(1, Answer("x", model="me", input_tokens=7, output_tokens=9, usd=0.5))
    silent, said = await client.complete(ask(0)), await client.complete(ask(1))
    assert (silent.model, silent.output_tokens, silent.usd) == ("by-hand", 100, None)
    assert silent.input_tokens > 0
    assert (said.model, said.input_tokens, said.output_tokens, said.usd) == ("me", 7, 9, 0.5)


async def test_a_step_without_an_answer_fails_for_good(ask):
    with pytest.raises(ProviderError, match="step 3") as caught:
        await connect("by-hand", LlmConfig()).complete(ask(3))
    assert not caught.value.transient
