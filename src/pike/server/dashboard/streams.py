"""The events of a page: what it shows, and then what changed, for as long as somebody looks.

Knows the form of server-sent events. Does not know requests (`serving`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from pike.api.views import FollowedRun, as_json
from pike.core.errors import PikeError

LOOK_SECONDS = 0.25
"""How often a run is looked at; an event must be on a screen within a second of its commit."""
FOLDER_SECONDS = 1.0
"""How often a folder or a campaign is looked at."""
BEAT_SECONDS = 15.0
"""A silence after which a line says that the connection stands."""


async def run_events(run: FollowedRun) -> AsyncIterator[str]:
    """The whole page of a run, then what changed: rows that are new or differ, and the rest."""
    sent: dict[str, object] = {}

    def look(known: object) -> tuple[object, dict[str, Any] | None]:
        mark, view = run.view()
        if mark == known:
            return mark, None
        changed = [row for row in view["rows"] if sent.get(row["id"]) is not row]
        event = {"patch": {k: v for k, v in view.items() if k != "rows"}, "rows": changed} if sent else {"view": view}
        sent.update((row["id"], row) for row in view["rows"])
        return mark, event

    async for text in _events(look, LOOK_SECONDS):
        yield text


async def view_events(look: Callable[[], dict[str, Any] | None]) -> AsyncIterator[str]:
    """A page that is sent whole whenever it differs."""

    def changed(known: object) -> tuple[object, dict[str, Any] | None]:
        view = look()
        return (view, None) if view == known else (view, {"view": view})

    async for text in _events(changed, FOLDER_SECONDS):
        yield text


async def _events(
    look: Callable[[object], tuple[object, dict[str, Any] | None]], every_seconds: float
) -> AsyncIterator[str]:
    known: object = None
    spoke = time.monotonic()
    while True:
        try:
            known, event = await asyncio.to_thread(look, known)
        except PikeError as error:
            known, event = None, {"problem": str(error)}
        if event is not None:
            yield f"data: {await asyncio.to_thread(as_json, event)}\n\n"
            spoke = time.monotonic()
        elif time.monotonic() - spoke > BEAT_SECONDS:
            yield ": still here\n\n"
            spoke = time.monotonic()
        await asyncio.sleep(every_seconds)
