"""A client for everything that is asked over the network, through `pydantic_ai.direct`.

Knows how a query becomes one request, and a response an answer; own servers stream theirs. Does not
retry: the SDKs' own retries are off, so that every attempt passes the ledger.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pike.core.errors import PikeError, ProviderError
from pike.core.query import Answer, Finish, Query
from pike.core.step import Role
from pike.llm.client import Price
from pike.llm.provider import failures, prices
from pike.llm.provider.adaptation import Adaptation
from pike.llm.provider.endpoint import Endpoint, http_client
from pike.llm.provider.probe import probe
from pike.llm.provider.slots import Call, Slots
from pike.llm.tokens import approximate_tokens

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelRequest, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


class ProviderClient:
    """Asks one model of one provider.

    Args:
        endpoint: which model, and where.
        timeout_seconds: limit on one attempt, from sending to the last byte; of an own server, on its
            silence.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._http: httpx2.AsyncClient | None = None
        self._model: Model | None = None
        self._adaptation = Adaptation(endpoint.vendor.effort_setting, streams=endpoint.own_server)
        self._slots = Slots() if endpoint.own_server else None

    def __repr__(self) -> str:
        return f"ProviderClient({self.name!r})"

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return self._endpoint.name

    async def complete(self, query: Query) -> Answer:
        """Answer one query with one request.

        Raises:
            ProviderError: the attempt failed.
            UserError: the key was refused, the model is unknown or the account has no credit.
        """
        model = self._connected()
        if self._slots is None:
            return await self._answered(model, query, None)
        async with self._slots.one(query) as call:
            return await self._answered(model, query, call)

    async def _answered(self, model: Model, query: Query, call: Call | None) -> Answer:
        started = time.monotonic()
        outcome = await self._request(model, query, call)
        if isinstance(outcome, PikeError):
            # Not raised where it was caught: the SDK's exception, which holds request headers, would be its context.
            raise outcome
        return _answer(self._endpoint, query, outcome, time.monotonic() - started)

    def loses(self, query: Query) -> bool:
        """Whether the call has been sent: some wait for a place."""
        return self._slots is None or self._slots.holds(query)

    def price(self) -> Price | None:
        """The listed price, None where it is unknown; needs no key."""
        return prices.list_price(self._endpoint)

    async def check(self) -> None:
        """Verify key and model without paying for an answer.

        Reads the provider's free pages. An own server that does not list the model is asked for 16
        tokens, the only check that can cost anything.

        Raises:
            UserError: the key is missing or refused, or the model is unknown.
            ProviderError: the provider could not be reached.
        """
        self._connected()
        assert self._http is not None
        if not await probe(self._endpoint, self._http):
            await self.complete(Query(-1, Role.BRAINSTORM, "Answer briefly.", "Say yes.", 0.0, 16))

    async def aclose(self) -> None:
        """Close the connections."""
        http, self._http, self._model = self._http, None, None
        if http is not None:
            await http.aclose()

    def _connected(self) -> Model:
        if self._model is None:
            self._endpoint.key()
            self._http = http_client(self._timeout_seconds)
            self._model = self._endpoint.model_over(self._http)
        return self._model

    async def _request(self, model: Model, query: Query, call: Call | None) -> ModelResponse | PikeError:
        from pydantic_ai.exceptions import ModelHTTPError, ModelRequestTimeout, ModelTimeoutError
        from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

        message = ModelRequest(parts=[SystemPromptPart(query.system), UserPromptPart(query.prompt)])
        settings = self._adaptation.settings(query, self._timeout_seconds)
        try:
            return await self._response(model, query, message, settings, call)
        except ModelHTTPError as error:
            learnt = self._adaptation.learn(settings, error.status_code, str(error.body or ""))
            if learnt:
                what = f"'{self.name}' {learnt}; later attempts respect that"
                return ProviderError(what, transient=True, retry_after_seconds=0.0)
            return failures.from_exception(self._endpoint, error)
        except Exception as error:
            if self._slots and call and isinstance(error, ModelRequestTimeout | ModelTimeoutError):
                self._slots.queued(call)
            # The boundary: on answers that break the protocol, adapters raise anything (IndexError, KeyError, ...).
            return failures.from_exception(self._endpoint, error)

    async def _response(
        self, model: Model, query: Query, message: ModelRequest, settings: ModelSettings, call: Call | None
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request, model_request_stream

        if not self._adaptation.streams:
            return await model_request(model, [message], model_settings=settings)
        began = False
        async with model_request_stream(model, [message], model_settings=settings) as stream:
            async for _ in stream:
                if self._slots and call and not began:
                    self._slots.begins(call)
                began = True
            response = stream.get()
        # pydantic-ai makes `stop` of a missing reason; what the server itself said is in the details.
        if not (response.provider_details or {}).get("finish_reason"):
            if not response.text:
                raise ValueError("there is no answer in it")
            fences = f"\n{response.text}".count("\n```")
            if fences % 2 or not (fences or query.role in (Role.BRAINSTORM, Role.PLAN)):
                what = f"'{self.name}': the connection closed before the answer was complete"
                raise ProviderError(what, transient=True)
            # Whole code blocks, ideas and plans are an answer that is paid: some servers never give a reason.
            return replace(response, finish_reason="length")
        return response


def _answer(endpoint: Endpoint, query: Query, response: ModelResponse, latency_seconds: float) -> Answer:
    text = response.text or ""
    usage = response.usage
    measured = not usage.unmeasured_requests and (usage.input_tokens or usage.output_tokens)
    finish = {"length": Finish.LENGTH, "content_filter": Finish.REFUSED}.get(response.finish_reason or "", Finish.STOP)
    return Answer(
        text=text,
        finish=finish,
        model=response.model_name or endpoint.model,
        input_tokens=usage.input_tokens if measured else approximate_tokens(query.system + query.prompt),
        output_tokens=usage.output_tokens if measured else approximate_tokens(text),
        thinking_tokens=usage.output_reasoning_tokens,
        cached_tokens=usage.cache_read_tokens,
        usd=prices.response_usd(endpoint, response) if measured or endpoint.free else None,
        latency_seconds=latency_seconds,
    )
