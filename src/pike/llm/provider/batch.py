"""A client for the vendors' batch APIs: half the price, and answers within a day.

Knows that calls which begin together are sent as one batch, and that its handle is journalled
before anybody waits for it, so that a later process collects it. The formats are pydantic-ai's.
Does not know where journals lie (`engine`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pike.core.errors import ProviderError, UserError
from pike.core.events import BatchSent
from pike.core.query import Query
from pike.llm.provider.client import ProviderClient
from pike.llm.provider.endpoint import INSTALL, Endpoint
from pike.llm.provider.failures import TRANSIENT_STATUSES
from pike.llm.provider.slots import Call

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import ModelRequest, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.models.batch import Batch, BatchRequest, BatchResult, EncodedBatchRequest
    from pydantic_ai.settings import ModelSettings

GATHER_SECONDS = 2.0
"""A batch is sent when no further call has come for so long."""
POLL_SECONDS, MOST_POLL_SECONDS = 10.0, 300.0
"""The first pause between two looks at a batch, and the longest; each is half as long again."""
READINGS = 5
"""How often the answers of an ended batch are fetched before that counts as a failure."""
_LIVE_ONLY = ("timeout", "request_timeout", "max_retries")
"""Settings of a single request that a batch has no use for."""

Keep = Callable[[BatchSent], Awaitable[None]]
"""Journals a batch; it is durable when this returns."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that waits for its batch to be sent."""

    step_id: int
    encoded: EncodedBatchRequest
    sent: asyncio.Future[Batch]


class BatchClient(ProviderClient):
    """Asks one model through its vendor's batch API.

    Attributes:
        gather_seconds: how long a batch waits for further calls.
        poll_seconds: the first pause between two looks at a batch.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        super().__init__(endpoint, timeout_seconds)
        self.gather_seconds, self.poll_seconds = GATHER_SECONDS, POLL_SECONDS
        self._keep: Keep = _keep_nothing
        self._handles: dict[int, str] = {}
        self._waiting: list[_Waiting] = []
        self._gathering: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._collecting: dict[str, asyncio.Task[dict[str, BatchResult]]] = {}

    def go_on(self, keep: Keep, handles: Mapping[int, str]) -> None:
        """Journal batches from here on, and collect those that an earlier process sent.

        Args:
            keep: journals a batch.
            handles: of the batches that hold a step's question, by step id.
        """
        self._keep = keep
        self._handles = dict(handles)

    def loses(self, query: Query) -> bool:
        """Never: a later process collects the batch."""
        return False

    async def aclose(self) -> None:
        """Close the connections once a batch on its way has its handle; what was sent goes on."""
        for task in (*filter(None, [self._gathering]), *self._collecting.values()):
            task.cancel()
        await asyncio.gather(*self._sending, *self._collecting.values(), return_exceptions=True)
        await super().aclose()

    async def _response(
        self, model: Model, query: Query, message: ModelRequest, settings: ModelSettings, call: Call | None
    ) -> ModelResponse:
        from pydantic_ai.models.batch import BatchRequest

        kept = {name: value for name, value in settings.items() if name not in _LIVE_ONLY}
        custom_id = f"step-{query.step_id}"
        request = BatchRequest(custom_id=custom_id, messages=[message], model_settings=cast("ModelSettings", kept))
        handle = self._handles.pop(query.step_id, "")
        batch = _handles().validate_json(handle) if handle else await self._sent(model, query, request)
        result = (await self._results(model, batch)).get(custom_id)
        if result is None or result.status in ("expired", "canceled"):
            what = "lost" if result is None else result.status
            raise ProviderError(f"'{self.name}': batch {batch.id} ended and the call was {what}", transient=True)
        return model.batch_decode(result, request)

    async def _sent(self, model: Model, query: Query, request: BatchRequest) -> Batch:
        """The batch in which a call is sent."""
        if not hasattr(model, "batch_encode"):
            raise UserError(f"'{self.name}' needs a newer pydantic-ai with batch APIs: {INSTALL} --upgrade")
        encoded = await model.batch_encode(request)
        waiting = _Waiting(query.step_id, encoded, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._gathering is not None:
            self._gathering.cancel()
        self._gathering = asyncio.create_task(self._gather(model))
        return await waiting.sent

    async def _gather(self, model: Model) -> None:
        """Send what waits, one batch for each group that the vendor keeps apart."""
        await asyncio.sleep(self.gather_seconds)
        self._gathering, waiting, self._waiting = None, self._waiting, []
        groups: dict[str, list[_Waiting]] = {}
        for one in waiting:
            if not one.sent.cancelled():
                groups.setdefault(one.encoded.group, []).append(one)
        for group in groups.values():
            task = asyncio.create_task(self._send(model, group))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, model: Model, waiting: list[_Waiting]) -> None:
        steps = tuple(one.step_id for one in waiting)
        try:
            await self._keep(BatchSent(self.name, steps))
            batch = await model.batch_create([one.encoded for one in waiting])
            await self._keep(BatchSent(self.name, steps, _handles().dump_json(batch).decode()))
        except Exception as error:  # every call of the batch fails as one alone would
            for one in waiting:
                if not one.sent.done():
                    one.sent.set_exception(error)
            return
        for one in waiting:
            if not one.sent.done():
                one.sent.set_result(batch)

    async def _results(self, model: Model, batch: Batch) -> dict[str, BatchResult]:
        """The results of a batch, for which all its calls wait together."""
        task = self._collecting.get(batch.id)
        if task is None:
            task = self._collecting[batch.id] = asyncio.create_task(self._collected(model, batch))
        return await asyncio.shield(task)

    async def _collected(self, model: Model, batch: Batch) -> dict[str, BatchResult]:
        """Look until the batch has ended.

        Unreachable vendors are waited for: asking again would pay again.
        """
        from pydantic_ai.exceptions import ModelAPIError

        pause, readings = self.poll_seconds, 0
        while True:
            try:
                if batch.status != "ended":
                    batch = await model.batch_status(batch)
                if batch.status == "ended":
                    readings += 1
                    return {result.custom_id: result for result in await model.batch_results(batch)}
            except ModelAPIError as error:
                status = getattr(error, "status_code", 0)
                if status == 404:
                    gone = f"'{self.name}': the vendor has no batch {batch.id} any more"
                    raise ProviderError(gone, transient=True) from None
                lasting = 400 <= status < 500 and status not in TRANSIENT_STATUSES
                if lasting or readings >= READINGS:
                    raise
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, MOST_POLL_SECONDS)


async def _keep_nothing(_: BatchSent) -> None:
    """Without a journal, a batch is lost with its process."""


def _handles() -> TypeAdapter[Batch]:
    """Turns batches into their handles and back."""
    from pydantic import TypeAdapter
    from pydantic_ai.models.batch import Batch as Handle

    return TypeAdapter(Handle)
