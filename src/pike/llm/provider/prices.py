"""What models cost, from the price list of genai-prices.

Knows how to look a model up and how to price one response. Does not guess: a model or a distant server
that the list does not know has no price.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pike.llm.client import Price, PriceTier
from pike.llm.provider.endpoint import Endpoint

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


BATCH_SHARE = 0.5
"""What a call in a batch costs, as a share of its price alone: the same with every vendor."""


def list_price(endpoint: Endpoint) -> Price | None:
    """The price of an endpoint's model today, None where it is unknown.

    An own server is looked up by its address only: a local copy of a model is not priced as the
    provider's, and costs nothing.
    """
    if endpoint.free:
        return Price(0.0, 0.0)
    if endpoint.own_server:
        return _listed(endpoint.model, None, endpoint.base_url)
    listed = _listed(endpoint.model, endpoint.vendor.price_name or endpoint.vendor.prefix, None)
    return listed.times(BATCH_SHARE) if listed and endpoint.batched else listed


def response_usd(endpoint: Endpoint, response: ModelResponse) -> float | None:
    """What a response cost in USD, None where usage or price is unknown.

    OpenRouter states the price that it charged, which then counts.
    """
    charged = (response.provider_details or {}).get("cost")
    if isinstance(charged, int | float):
        return float(charged)
    if endpoint.free:
        return 0.0
    if response.usage.unmeasured_requests:
        return None
    price = list_price(endpoint)
    if endpoint.own_server and price is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        # A dated or aliased model name that the list does not know: the name we asked for may be in it.
        return price.usd(response.usage.input_tokens, response.usage.output_tokens) if price else None


@cache
def _listed(model: str, provider: str | None, address: str | None) -> Price | None:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(model, None, provider, address)
    except LookupError:
        return None
    listed = found.get_prices(datetime.now(UTC))
    return _price(listed.input_mtok, listed.output_mtok)


def _price(input_rate: Any, output_rate: Any) -> Price | None:
    if input_rate is None or output_rate is None:
        return None
    starts = sorted({tier.start for rate in (input_rate, output_rate) for tier in getattr(rate, "tiers", ())})
    tiers = tuple(PriceTier(start, _rate(input_rate, start + 1), _rate(output_rate, start + 1)) for start in starts)
    return Price(_rate(input_rate, 0), _rate(output_rate, 0), tiers)


def _rate(rate: Any, input_tokens: int) -> float:
    value = getattr(rate, "base", rate)
    for tier in getattr(rate, "tiers", ()):
        if input_tokens > tier.start:
            value = tier.price
    return float(value)
