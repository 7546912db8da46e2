from dataclasses import replace

import pytest

from pike.core.query import Query
from pike.core.step import Role
from pike.llm import key_variables, vendors

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in (*key_variables(), *PROXIES, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ask():
    def make(step_id=0, role=Role.OPTIMISE, prompt="make it fast", max_output_tokens=32_000, temperature=0.8):
        return Query(step_id, role, "you write kernels", prompt, temperature, max_output_tokens)

    return make


@pytest.fixture
def play_provider(monkeypatch):
    """A function that puts a fake server in the place of every provider: each keeps its protocol."""

    def play(server):
        roots = {"anthropic": server.root, "google": server.root}
        played = [replace(vendor, base_url=roots.get(vendor.prefix, server.url)) for vendor in vendors.VENDORS]
        monkeypatch.setattr(vendors, "VENDORS", tuple(played))

    return play
