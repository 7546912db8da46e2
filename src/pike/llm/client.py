"""The one seam to language models: a client answers one query with one attempt, or says why not.

Knows what every client offers and what a price is. Does not know any provider, and never retries:
`complete_with_retries` does, so that every attempt passes the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pike.core.errors import PikeError
from pike.core.query import Answer, Query


@dataclass(frozen=True, slots=True)
class PriceTier:
    """What a whole call pays once its prompt is longer than `above_input_tokens`."""

    above_input_tokens: int
    input_usd_per_mtok: float
    output_usd_per_mtok: float


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs.

    Attributes:
        input_usd_per_mtok: USD per million prompt tokens, no cache discount.
        output_usd_per_mtok: USD per million answer tokens, thinking included.
        tiers: higher rates for long prompts, in ascending order of their threshold.
    """

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    tiers: tuple[PriceTier, ...] = ()

    def times(self, share: float) -> Price:
        """The same rates, each times a share."""
        tiers = tuple(
            PriceTier(tier.above_input_tokens, share * tier.input_usd_per_mtok, share * tier.output_usd_per_mtok)
            for tier in self.tiers
        )
        return Price(share * self.input_usd_per_mtok, share * self.output_usd_per_mtok, tiers)

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """USD for one call with these tokens."""
        input_rate, output_rate = self.input_usd_per_mtok, self.output_usd_per_mtok
        for tier in self.tiers:
            if input_tokens > tier.above_input_tokens:
                input_rate, output_rate = tier.input_usd_per_mtok, tier.output_usd_per_mtok
        return (input_tokens * input_rate + output_tokens * output_rate) / 1_000_000


class Client(Protocol):
    """One model of one provider.

    Many tasks of one event loop may use a client at once. Its name, its errors and its `repr`
    never hold a key.
    """

    @property
    def name(self) -> str:
        """The name it was connected by, for example `openai:gpt-5`."""

    async def complete(self, query: Query) -> Answer:
        """Answer one query with one attempt.

        Raises:
            ProviderError: the attempt failed; `transient` says whether another can help.
            UserError: nothing can be answered (key refused, unknown model, no credit, no such
                program).
        """

    def loses(self, query: Query) -> bool:
        """Whether an answer that is paid is lost if the call under way for a query is cancelled."""

    def price(self) -> Price | None:
        """What the model costs, None where that is unknown (never guessed as 0)."""

    async def check(self) -> None:
        """Verify key and model as cheaply as possible, before anything else is spent.

        Raises:
            UserError: the key is missing or refused, or the model is unknown.
            ProviderError: the provider could not be reached.
        """

    async def aclose(self) -> None:
        """Close connections; the client is not used afterwards. May be called twice."""


class LocalClient:
    """The common part of clients without a connection: no price, nothing to verify or close."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name it was connected by."""

    def loses(self, query: Query) -> bool:
        """Always: nobody keeps the answer."""
        return True

    def price(self) -> Price | None:
        """None: a cost is known only where an answer states it."""
        return None

    async def check(self) -> None:
        """Nothing to verify."""

    async def aclose(self) -> None:
        """Nothing to close."""


class CallWatcher(Protocol):
    """The ledger's view of a call: told before it is sent and after it returned or failed.

    A cancelled call is reported to neither `after` nor `failed`: whether it was paid is unknown.
    """

    async def before(self, query: Query, attempt: int, client: Client) -> None:
        """A call is about to be made, counted from 1; an exception prevents it."""

    async def after(self, query: Query, attempt: int, answer: Answer) -> None:
        """The call returned."""

    async def failed(self, query: Query, attempt: int, error: PikeError) -> None:
        """The call failed: a `ProviderError`, or the `UserError` that stops the run."""
