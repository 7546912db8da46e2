"""Attempts of one query, with exponential back-off, full jitter and respect for `Retry-After`.

Knows when another attempt makes sense, how long to wait, and that the ledger hears of every
attempt. Does not know the cost of a call.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from pike.core.errors import ProviderError, UserError
from pike.core.query import Answer, Query
from pike.llm.client import CallWatcher, Client

BASE_SECONDS = 1.0
"""Upper end of the first pause."""
CAP_SECONDS = 60.0
"""Upper end of every pause without a wish of the provider."""
RETRY_AFTER_CAP_SECONDS = 300.0
"""The longest pause that a provider can ask for; rate windows are minutes, more means a quota."""

Sleep = Callable[[float], Awaitable[None]]


def pause_seconds(error: ProviderError, attempt: int, rng: random.Random) -> float:
    """How long to wait after attempt number `attempt` (from 1) failed with `error`.

    Without a wish of the provider: uniform in [0, min(60, 2**(attempt - 1))]. This is "full
    jitter" (M. Brooker, AWS Architecture Blog, 2015), which spreads many callers best. With a
    wish: that long, at most 300 seconds, plus up to a second of jitter, so that callers do not
    return together. A wish of 0 means at once.
    """
    wish = error.retry_after_seconds
    if wish is None:
        return rng.uniform(0.0, min(CAP_SECONDS, BASE_SECONDS * 2.0 ** min(attempt - 1, 32)))
    if wish <= 0.0:
        return 0.0
    return min(wish, RETRY_AFTER_CAP_SECONDS) + rng.uniform(0.0, BASE_SECONDS)


async def complete_with_retries(
    client: Client,
    query: Query,
    watcher: CallWatcher,
    max_attempts: int,
    rng: random.Random,
    *,
    sleep: Sleep = asyncio.sleep,
) -> Answer:
    """Answer a query, trying again on transient failures.

    Args:
        watcher: told of every attempt before it is sent and after it ended.
        max_attempts: attempts in all, the first included; less than 1 counts as 1.

    Raises:
        ProviderError: the last failure, when it was not transient or no attempt was left.
        UserError: the client cannot answer anything (key refused, unknown model).
    """
    attempt = 1
    while True:
        await watcher.before(query, attempt, client)
        try:
            answer = await client.complete(query)
        except UserError as error:
            await watcher.failed(query, attempt, error)
            raise
        except ProviderError as error:
            await watcher.failed(query, attempt, error)
            if not error.transient or attempt >= max_attempts:
                raise
            pause = pause_seconds(error, attempt, rng)
        else:
            await watcher.after(query, attempt, answer)
            return answer
        await sleep(pause)
        attempt += 1
