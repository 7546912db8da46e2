"""A client for everything that is asked over the network, through `pydantic_ai.direct`.

Knows how a query becomes one request and a response becomes an answer, and how key and model are verified free
of charge. Does not retry: the SDKs' own retries are off, so that every attempt passes our ledger.

Some models refuse a `temperature`, and some write fewer tokens than were asked for. Where pydantic-ai's profile
of a model knows, it adapts the request silently. Where only the provider's refusal (HTTP 400, free) tells, that
attempt fails as transient with a wait of 0 seconds, and from then on this client respects it (`adapt`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pike.core.errors import PikeError, ProviderError
from pike.core.query import Answer, Finish, Query
from pike.core.step import Role
from pike.llm import failures, prices
from pike.llm.adapt import Adaptation
from pike.llm.client import Price
from pike.llm.names import ModelName
from pike.llm.probe import probe
from pike.llm.tokens import approximate_tokens
from pike.llm.vendors import Endpoint, build_model, endpoint, http_client

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model


class ProviderClient:
    """Asks one model of one provider.

    Args:
        name: the parsed name.
        timeout_seconds: limit on one attempt, from sending to the last byte.
        base_url: replaces the provider's own address (a proxy that is the provider, or a fake of it).
    """

    def __init__(self, name: ModelName, timeout_seconds: float, base_url: str = "") -> None:
        self._target = endpoint(name, base_url)
        self._timeout_seconds = timeout_seconds
        self._http: httpx2.AsyncClient | None = None
        self._model: Model | None = None
        self._price: Price | None = None
        self._price_known = False
        self._adaptation = Adaptation()

    def __repr__(self) -> str:
        return f"ProviderClient({self.name!r})"

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return self._target.name

    async def complete(self, query: Query) -> Answer:
        """Answer one query with one request.

        Raises:
            ProviderError: the attempt failed.
            UserError: the key was refused, the model is unknown or the account has no credit.
        """
        model = self._connected()
        started = time.monotonic()
        outcome = await self._request(model, query)
        if isinstance(outcome, PikeError):
            # Raised here and not where it was caught: the SDK's exception holds request headers.
            raise outcome
        return _answer(self._target, query, outcome, time.monotonic() - started)

    def price(self) -> Price | None:
        """The listed price, None where it is unknown; needs no key."""
        if not self._price_known:
            self._price, self._price_known = prices.list_price(self._target), True
        return self._price

    async def check(self) -> None:
        """Verify key and model without paying for an answer.

        The provider's own free pages are read. An OpenAI-compatible server that does not list the model is asked
        for an answer of 16 tokens, the only check that can cost anything.

        Raises:
            UserError: the key is missing or refused, or the model is unknown.
            ProviderError: the provider could not be reached.
        """
        self._connected()
        assert self._http is not None
        if not await probe(self._target, self._http):
            await self.complete(Query(-1, Role.BRAINSTORM, "Answer briefly.", "Say yes.", 0.0, 16))

    async def aclose(self) -> None:
        """Close the connections."""
        http, self._http, self._model = self._http, None, None
        if http is not None:
            await http.aclose()

    def _connected(self) -> Model:
        if self._model is None:
            self._target.key()
            self._http = http_client(self._timeout_seconds)
            self._model = build_model(self._target, self._http)
        return self._model

    async def _request(self, model: Model, query: Query) -> ModelResponse | PikeError:
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import ModelHTTPError
        from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

        message = ModelRequest(parts=[SystemPromptPart(query.system), UserPromptPart(query.prompt)])
        settings = self._adaptation.settings(query, self._timeout_seconds)
        try:
            return await model_request(model, [message], model_settings=settings)
        except ModelHTTPError as error:
            learnt = self._adaptation.learn(settings, error.status_code, str(error.body or ""))
            if learnt:
                what = f"'{self.name}' {learnt}; later attempts respect that"
                return ProviderError(what, transient=True, retry_after_seconds=0.0)
            return failures.from_exception(self._target, error)
        except Exception as error:
            # The boundary: adapters raise whatever their parsing trips over (IndexError, KeyError, ...) on
            # answers that break the protocol.
            return failures.from_exception(self._target, error)


def _answer(target: Endpoint, query: Query, response: ModelResponse, latency_seconds: float) -> Answer:
    text = response.text or ""
    usage = response.usage
    measured = not usage.unmeasured_requests and (usage.input_tokens or usage.output_tokens)
    finish = {"length": Finish.LENGTH, "content_filter": Finish.REFUSED}.get(response.finish_reason or "", Finish.STOP)
    return Answer(
        text=text,
        finish=finish,
        model=response.model_name or target.model,
        input_tokens=usage.input_tokens if measured else approximate_tokens(query.system + query.prompt),
        output_tokens=usage.output_tokens if measured else approximate_tokens(text),
        thinking_tokens=usage.output_reasoning_tokens,
        usd=prices.response_usd(target, response) if measured else None,
        latency_seconds=latency_seconds,
    )
