"""How the evaluation service listens, and how it ends.

Knows hosts, ports and the order of start and end. Does not know any address (`interface`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.api.service.desk import DeskTerms, opened_desk
from pike.core.errors import needing
from pike.core.settings.config import EngineConfig
from pike.server.dashboard.guard import LOOPBACK
from pike.server.evaluation.access import ServiceTokens
from pike.server.serve import listen, url_of

MOST_PARCEL_BYTES = 1 << 30
"""A parcel holds a saved module with its weights."""


@dataclass(frozen=True, slots=True)
class ServicePlace:
    """Where a service is.

    Attributes:
        folder: its queue, verdicts and tasks.
        host: an address of this machine.
        port: 0 for any free one.
        hosts: the names and addresses under which it answers.
        most_bytes: of a parcel.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = LOOPBACK
    most_bytes: int = MOST_PARCEL_BYTES


async def serve_evaluations(
    place: ServicePlace,
    tokens: ServiceTokens,
    terms: DeskTerms,
    engine: EngineConfig,
    started: Callable[[str], None],
    executor: Any = None,
) -> None:
    """Serve until the process is told to stop; what is not judged then, the next one judges.

    Args:
        place: where.
        tokens: who may ask.
        terms: what the owner decides.
        engine: where judges work.
        started: called with the server's URL once it listens.
        executor: judges instead of those of `engine`.

    Raises:
        UserError: the extra `serve` is missing, or the folder, the device or the address cannot be
            used.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    with needing("The evaluation service", "serve"):
        import uvicorn

        from pike.server.evaluation.interface import Interface
    with listen(place.host, place.port) as listener:
        async with opened_desk(place.folder, terms, engine, executor) as desk:
            app = Interface(desk, tokens, place.hosts, place.most_bytes).app()
            config = uvicorn.Config(
                app, log_level="warning", timeout_graceful_shutdown=1, timeout_keep_alive=75, server_header=False
            )
            server = uvicorn.Server(config)
            judging = asyncio.create_task(desk.judge())
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            started(url_of(listener))
            try:
                done, _ = await asyncio.wait({judging, serving}, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            finally:
                judging.cancel()
                server.should_exit = True  # requests that came are answered, or end, before the queue is closed
                await asyncio.gather(judging, serving, return_exceptions=True)
