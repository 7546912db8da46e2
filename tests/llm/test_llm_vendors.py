"""A provider is one record: names, keys, checks, requests and redaction follow from it."""

import pytest

from pike.core.errors import UserError
from pike.core.settings.config import LlmConfig
from pike.llm import connect, key_variables, vendors
from pike.llm.fake_server import FakeServer
from pike.llm.names import forms
from pike.llm.redact import redact
from pike.llm.vendors import Vendor, chat_completions

KEY = "nb-0123456789"


@pytest.fixture
def nimbus(monkeypatch):
    """A fake server, and the record of a made-up provider that lives there."""
    with FakeServer(models=("cloud-1",), keys=(KEY,)) as server:
        record = Vendor(
            prefix="nimbus",
            label="Nimbus",
            base_url=server.url,
            key_variables=("NIMBUS_API_KEY",),
            probe_paths=("/models",),
            build=chat_completions,
            lists_models=True,
        )
        monkeypatch.setattr(vendors, "VENDORS", (*vendors.VENDORS, record))
        monkeypatch.setenv("NIMBUS_API_KEY", KEY)
        yield server


async def test_one_record_is_enough_to_ask_a_provider(nimbus, ask):
    client = connect("nimbus:cloud-1", LlmConfig())
    await client.check()
    answer = await client.complete(ask())
    await client.aclose()
    assert (answer.text, answer.model, client.name) == ("hello", "cloud-1", "nimbus:cloud-1")
    assert nimbus.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (client.price(), answer.usd) == (None, None)


async def test_its_messages_follow_from_the_record(nimbus, monkeypatch, ask):
    assert "nimbus:MODEL" in forms()
    assert "NIMBUS_API_KEY" in key_variables()
    assert redact(f"wrong key {KEY}") == "wrong key [NIMBUS_API_KEY]"
    with pytest.raises(UserError, match="Nimbus has no model 'cloud-2'"):
        await connect("nimbus:cloud-2", LlmConfig()).check()
    monkeypatch.setenv("NIMBUS_API_KEY", "nb-another-key")
    with pytest.raises(UserError, match=r"Nimbus refused the API key .*NIMBUS_API_KEY"):
        await connect("nimbus:cloud-1", LlmConfig()).check()
    monkeypatch.delenv("NIMBUS_API_KEY")
    with pytest.raises(UserError, match="NIMBUS_API_KEY"):
        await connect("nimbus:cloud-1", LlmConfig()).complete(ask())
