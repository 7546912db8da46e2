"""The providers we can ask and how a pydantic-ai model is built for each.

Knows base addresses, the environment variables with keys, how a key is sent, and which wire protocol is used.
Does not know retries, prices or failures. pydantic-ai is imported only when a model is built.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pike.core.errors import UserError
from pike.llm.names import Kind, ModelName
from pike.llm.redact import redact

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

INSTALL = "pip install 'pike-torch[llm]'"
NO_KEY = "no-key-needed"
"""What an OpenAI-compatible server is sent where no key is set; the protocol wants one."""
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Vendor:
    """One provider as it is reached.

    Attributes:
        label: what people call it.
        base_url: where its API begins; pydantic-ai adds the version for Anthropic and Google.
        probe_paths: what can be fetched free of charge to verify a key and a model; `{model}` is filled in.
        key_variables: environment variables that may hold the key, the first that is set counts.
        key_header: the header that carries the key.
        key_prefix: what goes before the key in that header.
        headers: further headers of a probe.
        listed: the last probe path is a list of models, in which the model is to be looked up.
    """

    label: str
    base_url: str
    probe_paths: tuple[str, ...]
    key_variables: tuple[str, ...]
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    listed: bool = False


VENDORS: Mapping[Kind, Vendor] = {
    Kind.OPENAI: Vendor("OpenAI", "https://api.openai.com/v1", ("/models/{model}",), ("OPENAI_API_KEY",)),
    Kind.ANTHROPIC: Vendor(
        "Anthropic",
        "https://api.anthropic.com",
        ("/v1/models/{model}",),
        ("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
    ),
    Kind.GOOGLE: Vendor(
        "Google",
        "https://generativelanguage.googleapis.com",
        ("/v1beta/models/{model}",),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        key_header="x-goog-api-key",
        key_prefix="",
    ),
    Kind.OPENROUTER: Vendor(
        "OpenRouter", "https://openrouter.ai/api/v1", ("/key", "/models"), ("OPENROUTER_API_KEY",), listed=True
    ),
}
"""The providers by the prefix of their names."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one provider at one address.

    Attributes:
        name: the name it was connected by.
        kind: the provider's prefix.
        model: what the provider calls the model.
        vendor: how the provider is reached.
        base_url: the address that is asked.
        compatible: an OpenAI-compatible server that is not OpenAI; needs no key.
    """

    name: str
    kind: Kind
    model: str
    vendor: Vendor
    base_url: str
    compatible: bool

    @property
    def key_variable(self) -> str:
        """The environment variable that people should set."""
        return self.vendor.key_variables[0]

    def key(self) -> str:
        """The key for this endpoint.

        Raises:
            UserError: none is set and the provider wants one.
        """
        for variable in self.vendor.key_variables:
            if value := os.environ.get(variable, "").strip():
                return value
        if self.compatible:
            return NO_KEY
        raise UserError(f"'{self.name}' needs an API key: set the environment variable {self.key_variable}")


def endpoint(name: ModelName, base_url: str = "") -> Endpoint:
    """The endpoint behind a provider's name; `base_url` replaces the provider's own address (a proxy, a fake)."""
    vendor = VENDORS[name.kind]
    address = name.url or base_url or vendor.base_url
    return Endpoint(name.text, name.kind, name.target, vendor, address.rstrip("/"), compatible=bool(name.url))


def http_client(timeout_seconds: float) -> httpx2.AsyncClient:
    """A connection pool for one client, to be closed by it.

    Raises:
        UserError: pydantic-ai is not installed.
    """
    try:
        import httpx2
        from pydantic_ai.models import create_async_httpx2_client
    except ImportError as error:
        raise UserError(f"Asking a language model needs more packages: {INSTALL} (missing: {error.name})") from None
    return create_async_httpx2_client(timeout=httpx2.Timeout(timeout_seconds, connect=CONNECT_SECONDS))


def build_model(target: Endpoint, http: httpx2.AsyncClient) -> Model:
    """The pydantic-ai model for an endpoint.

    OpenAI itself is asked through its Responses API, which serves every model it sells; OpenAI-compatible
    servers and OpenRouter through Chat Completions, which every such server speaks.

    Raises:
        UserError: no key is set, the provider's package is not installed, or the model's name cannot be one.
    """
    from pydantic_ai.exceptions import UserError as Rejected

    key = target.key()
    # Profiles of reasoning models drop `temperature` and warn on every call; the drop is documented instead.
    warnings.filterwarnings("ignore", message="Sampling parameters", category=UserWarning)
    try:
        return _BUILDERS[target.kind](target, key, http)
    except ImportError as error:
        raise UserError(f"'{target.name}' needs more packages: {INSTALL} (missing: {error.name})") from None
    except Rejected as error:
        raise UserError(f"'{target.name}' cannot be asked: {redact(str(error))}") from None


def _openai(target: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if target.compatible:
        # Not `OpenAIProvider`: its name would let a local model be priced as OpenAI's of the same name.
        server = OpenAICompatibleProvider("openai-compatible", base_url=target.base_url, api_key=key, http_client=http)
        return OpenAIChatModel(target.model, provider=server)
    provider = OpenAIProvider(base_url=target.base_url, api_key=key, http_client=http)
    return OpenAIResponsesModel(target.model, provider=provider)


def _anthropic(target: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=target.base_url, api_key=key, http_client=http)
    return AnthropicModel(target.model, provider=provider)


def _google(target: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(target.model, provider=GoogleProvider(base_url=target.base_url, api_key=key, http_client=http))


def _openrouter(target: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    sdk = AsyncOpenAI(base_url=target.base_url, api_key=key, http_client=http)
    return OpenRouterModel(target.model, provider=OpenRouterProvider(openai_client=sdk))


_BUILDERS = {
    Kind.OPENAI: _openai,
    Kind.ANTHROPIC: _anthropic,
    Kind.GOOGLE: _google,
    Kind.OPENROUTER: _openrouter,
}
