"""The providers of models: one `Vendor` record each, which is all that PIKE knows of a provider.

Knows addresses, key variables, free pages and how a pydantic-ai model is built. Does not know
names, requests, prices or failures. pydantic-ai is imported only when a model is built.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class Access:
    """What a pydantic-ai model is built from."""

    model: str
    base_url: str
    key: str
    http: httpx2.AsyncClient


@dataclass(frozen=True, slots=True)
class Vendor:
    """One provider of models.

    Attributes:
        prefix: how its models' names begin, for example `openai` in `openai:gpt-5`.
        label: what people call it.
        base_url: where its API begins; pydantic-ai adds the version for Anthropic and Google.
        key_variables: environment variables that may hold the key; the first that is set counts.
        probe_paths: free pages that verify a key and a model; `{model}` is filled in.
        build: makes the pydantic-ai model.
        lists_models: the last probe page is a list, in which the model is looked up.
        key_header: the header that carries the key on a probe.
        key_scheme: what goes before the key in that header.
        headers: further headers of a probe.
        price_name: its name in genai-prices, empty where that is the prefix.
        effort_setting: the pydantic-ai setting that takes the reasoning effort.
        batches: it has a batch API.
    """

    prefix: str
    label: str
    base_url: str
    key_variables: tuple[str, ...]
    probe_paths: tuple[str, ...]
    build: Callable[[Access], Model]
    lists_models: bool = False
    key_header: str = "authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    price_name: str = ""
    effort_setting: str = "thinking"
    batches: bool = False


def chat_completions(access: Access) -> Model:
    """A model behind any server that speaks OpenAI's Chat Completions."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # Not `OpenAIProvider`: its name would let a local model be priced as OpenAI's of the same name.
    name, url = "openai-compatible", access.base_url
    server = OpenAICompatibleProvider(name, base_url=url, api_key=access.key, http_client=access.http)
    return OpenAIChatModel(access.model, provider=server)


def _openai(access: Access) -> Model:
    """OpenAI's own models; its Responses API serves every model that it sells."""
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=access.base_url, api_key=access.key, http_client=access.http)
    return OpenAIResponsesModel(access.model, provider=provider)


def _anthropic(access: Access) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=access.base_url, api_key=access.key, http_client=access.http)
    return AnthropicModel(access.model, provider=provider)


def _google(access: Access) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(base_url=access.base_url, api_key=access.key, http_client=access.http)
    return GoogleModel(access.model, provider=provider)


def _openrouter(access: Access) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    sdk = AsyncOpenAI(base_url=access.base_url, api_key=access.key, http_client=access.http)
    return OpenRouterModel(access.model, provider=OpenRouterProvider(openai_client=sdk))


VENDORS: tuple[Vendor, ...] = (
    Vendor(
        prefix="openai",
        label="OpenAI",
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        probe_paths=("/models/{model}",),
        build=_openai,
        batches=True,
    ),
    Vendor(
        prefix="anthropic",
        label="Anthropic",
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
        probe_paths=("/v1/models/{model}",),
        build=_anthropic,
        batches=True,
        key_header="x-api-key",
        key_scheme="",
        headers={"anthropic-version": "2023-06-01"},
    ),
    Vendor(
        prefix="google",
        label="Google",
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        probe_paths=("/v1beta/models/{model}",),
        build=_google,
        batches=True,
        key_header="x-goog-api-key",
        key_scheme="",
    ),
    Vendor(
        prefix="openrouter",
        label="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        probe_paths=("/key", "/models"),
        build=_openrouter,
        lists_models=True,
    ),
)
"""Every provider. Names, messages, key checks, redaction and prices follow from this list."""


def vendor_of(prefix: str) -> Vendor | None:
    """The provider whose models' names begin so, None if there is none."""
    return next((vendor for vendor in VENDORS if vendor.prefix == prefix), None)


def key_variables() -> tuple[str, ...]:
    """Every environment variable that may hold a key."""
    return tuple(variable for vendor in VENDORS for variable in vendor.key_variables)


def key_of(vendor: Vendor) -> str:
    """The key that the environment has for a provider, empty where it has none."""
    values = (os.environ.get(variable, "").strip() for variable in vendor.key_variables)
    return next(filter(None, values), "")
