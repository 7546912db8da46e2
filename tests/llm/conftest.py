import pytest

from pike.core.query import Query
from pike.core.step import Role
from pike.llm.redact import KEY_VARIABLES

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in (*KEY_VARIABLES, *PROXIES, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ask():
    def make(step_id=0, role=Role.OPTIMISE, prompt="make it fast", max_output_tokens=32_000, temperature=0.8):
        return Query(step_id, role, "you write kernels", prompt, temperature, max_output_tokens)

    return make
