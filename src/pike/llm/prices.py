"""What models cost, from the price list of genai-prices.

Knows how to look a model up and how to price one response. Does not guess: a model or a server that the list
does not know has no price.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pike.llm.client import Price, PriceTier
from pike.llm.names import Kind
from pike.llm.vendors import Endpoint

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def list_price(target: Endpoint) -> Price | None:
    """The price of an endpoint's model today, None where the list does not know it or is not installed.

    An OpenAI-compatible server is looked up by its address only, so that a local copy of a model is never priced
    as the provider's own.
    """
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    by_name = None if target.compatible else target.kind.value
    by_address = target.base_url if target.compatible else None
    try:
        _, model = get_snapshot().find_provider_model(target.model, None, by_name, by_address)
    except LookupError:
        return None
    listed = model.get_prices(datetime.now(UTC))
    return _price(listed.input_mtok, listed.output_mtok)


def response_usd(target: Endpoint, response: ModelResponse) -> float | None:
    """What a response cost in USD, None where usage or price is unknown.

    OpenRouter states the price it charged, which then counts.
    """
    if response.usage.unmeasured_requests:
        return None
    if target.kind is Kind.OPENROUTER:
        charged = (response.provider_details or {}).get("cost")
        if isinstance(charged, int | float):
            return float(charged)
    if target.compatible and list_price(target) is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        # A dated or aliased model name that the list does not know: the name we asked for may be in it.
        price = list_price(target)
        return price.usd(response.usage.input_tokens, response.usage.output_tokens) if price else None


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
