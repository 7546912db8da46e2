"""What the runs of a campaign share, so that each is opened once: judges, connections to models, loaded originals.

Knows that a run closes what it was given at its end, and keeps that from happening before the campaign's. Does not know
who takes turns.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from pike.core.config import LlmConfig
from pike.core.device import DeviceFacts
from pike.core.evaluation import Evaluation, EvaluationRequest
from pike.core.query import Answer, Query
from pike.core.task import Task
from pike.engine.crew import Connect
from pike.engine.executors import Executor, OnStage
from pike.engine.originals import Original
from pike.llm.client import Client, Price
from pike.llm.names import PROVIDERS, parse

Load = Callable[[Task], Original]


class SharedExecutor:
    """One executor for all runs; `aclose` of a run does nothing, `end` stops the judges."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._facts: dict[str, DeviceFacts] = {}

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on one candidate."""
        return await self._executor.evaluate(request, on_stage)

    async def facts(self, device: str) -> DeviceFacts:
        """What the device is; asked of a judge once."""
        if device not in self._facts:
            self._facts[device] = await self._executor.facts(device)
        return self._facts[device]

    async def aclose(self) -> None:
        """Nothing: other runs go on."""

    async def end(self) -> None:
        """Stop everything that was started."""
        await self._executor.aclose()


class SharedClients:
    """One connection to each provider's model for all runs, its key checked once.

    Scripts, commands and recordings are opened by each run for itself: they cost nothing, and a script counts the
    errors that it has raised.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._clients: dict[tuple[str, float], _SharedClient] = {}

    def connect(self, name: str, config: LlmConfig) -> Client:
        """The client for `name`, as `llm.connect`."""
        if parse(name).kind not in PROVIDERS:
            return self._connect(name, config)
        key = name, config.timeout_seconds
        if key not in self._clients:
            self._clients[key] = _SharedClient(self._connect(name, config))
        return self._clients[key]

    async def end(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.end()


class _SharedClient:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._checked = False

    @property
    def name(self) -> str:
        return self._client.name

    async def complete(self, query: Query) -> Answer:
        return await self._client.complete(query)

    def price(self) -> Price | None:
        return self._client.price()

    async def check(self) -> None:
        if not self._checked:
            await self._client.check()
            self._checked = True

    async def aclose(self) -> None:
        """Nothing: other runs go on."""

    async def end(self) -> None:
        await self._client.aclose()


class SharedOriginals:
    """Loads originals one at a time and keeps the latest few, so that memory stays flat.

    Args:
        load: loads one.
        most: how many are kept.
    """

    def __init__(self, load: Load, most: int) -> None:
        self._load = load
        self._most = most
        self._kept: OrderedDict[Task, Original] = OrderedDict()
        # Loading draws from torch's global generator, which threads must not do side by side.
        self._lock = threading.Lock()

    def load(self, task: Task) -> Original:
        """The original model of a task.

        Raises:
            UserError: the task's own code fails.
        """
        with self._lock:
            original = self._kept.get(task) or self._load(task)
            self._kept[task] = original
            self._kept.move_to_end(task)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return original
