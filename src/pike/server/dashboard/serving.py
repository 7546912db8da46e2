"""The addresses of the dashboard, and how it listens.

Knows which address shows what. Does not know who may ask (`guard`) or how a page is kept current
(`streams`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pike.api.views import FollowedFolder, FollowedRun, as_json, index_view, page
from pike.core.errors import PikeError, UserError, needing
from pike.server.dashboard.control import Control
from pike.server.dashboard.guard import DashboardAccess, Guard
from pike.server.dashboard.streams import run_events, view_events
from pike.server.serve import serve_app

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

TOKEN = "PIKE_SERVE_TOKEN"
"""The environment variable that a token is taken from."""


async def serve_dashboard(
    root: Path, host: str, port: int, access: DashboardAccess, started: Callable[[str], None]
) -> None:
    """Serve the runs below a folder until the process is told to stop.

    Args:
        root: the folder.
        host: an address of this machine.
        port: 0 for any free one.
        access: who may do what.
        started: called with the server's URL once it listens.

    Raises:
        UserError: the extra `serve` is missing, there is no such folder, or the address cannot be
            used.
    """
    if not root.is_dir():
        raise UserError(f"There is no folder '{root}': give the folder in which runs are")
    with needing("The dashboard", "serve"):
        app = Guard(Pages(FollowedFolder(root), Control()).app(), access)
        await serve_app(app, host, port, started, timeout_graceful_shutdown=1, server_header=False)


class Pages:
    """What each address answers."""

    def __init__(self, folder: FollowedFolder, control: Control) -> None:
        self._folder = folder
        self._control = control

    def app(self) -> Starlette:
        """The addresses."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes: list[tuple[str, Any, str]] = [
            ("/", self.index, "GET"),
            ("/compare", self.compare, "GET"),
            ("/run/{name:path}", self.show, "GET"),
            ("/campaign/{name:path}", self.show, "GET"),
            ("/api/index/events", self.index_events, "GET"),
            ("/api/compare/events", self.compare_events, "GET"),
            ("/api/campaign/{name:path}/events", self.campaign_events, "GET"),
            ("/api/run/{name:path}/events", self.run_events, "GET"),
            ("/api/run/{name:path}/details", self.details, "GET"),
            ("/api/run/{name:path}/pause", self.act, "POST"),
            ("/api/run/{name:path}/stop", self.act, "POST"),
            ("/api/run/{name:path}/resume", self.act, "POST"),
        ]
        return Starlette(routes=[Route(path, end, methods=[method]) for path, end, method in routes])

    async def index(self, request: Request) -> Response:
        """The page of the folder."""
        return _shell("/api/index")

    async def compare(self, request: Request) -> Response:
        """The page that compares runs."""
        return _shell("/api/compare", f"?{request.url.query}")

    async def show(self, request: Request) -> Response:
        """The page of a run or a campaign."""
        kind = request.url.path.split("/")[1]
        return _shell(f"/api/{kind}/{quote(request.path_params['name'])}")

    async def index_events(self, request: Request) -> Response:
        """What the page of the folder shows."""
        return _stream(view_events(lambda: _index(self._folder)))

    async def compare_events(self, request: Request) -> Response:
        """What the page that compares runs shows."""
        wanted = request.query_params.getlist("run")
        return _stream(view_events(lambda: _comparison(self._folder, wanted)))

    async def campaign_events(self, request: Request) -> Response:
        """What the page of a campaign shows."""
        name = request.path_params["name"]
        if await asyncio.to_thread(self._folder.campaign, name) is None:
            return _missing(name)
        return _stream(view_events(lambda: self._folder.campaign_view(name, "/run/")))

    async def run_events(self, request: Request) -> Response:
        """What the page of a run shows."""
        run = await self._run(request)
        return _missing(request.path_params["name"]) if run is None else _stream(run_events(run))

    async def details(self, request: Request) -> Response:
        """What is shown of a candidate once it is opened."""
        run, name = await self._run(request), request.query_params.get("id", "")
        found = None if run is None else await asyncio.to_thread(run.details, name)
        return _missing(name) if found is None else _text(as_json(found), 200, "application/json")

    async def act(self, request: Request) -> Response:
        """Pause, stop or resume a run."""
        run, verb = await self._run(request), request.url.path.rpartition("/")[2]
        if run is None:
            return _missing(request.path_params["name"])
        try:
            return _text(await asyncio.to_thread(getattr(self._control, verb), run))
        except PikeError as error:
            return _text(str(error), 409)

    async def _run(self, request: Request) -> FollowedRun | None:
        return await asyncio.to_thread(self._folder.run, request.path_params["name"])


def _shell(api: str, query: str = "") -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse("".join(page({"kind": "live", "title": "runs", "api": api, "query": query})))


def _stream(events: AsyncIterator[str]) -> Response:
    from starlette.responses import StreamingResponse

    return StreamingResponse(events, media_type="text/event-stream")


def _text(words: str, status: int = 200, media_type: str = "text/plain") -> Response:
    from starlette.responses import Response

    return Response(words, status, media_type=media_type)


def _missing(name: str) -> Response:
    return _text(f"There is nothing called '{name}' here", 404)


def _index(folder: FollowedFolder) -> dict[str, Any]:
    rows = [{**row, "href": f"/run/{quote(row['name'])}"} for row in folder.rows()]
    campaigns = [{"name": name, "href": f"/campaign/{quote(name)}"} for name in folder.campaigns()]
    return index_view(folder.root.resolve().name, rows, campaigns)


def _comparison(folder: FollowedFolder, wanted: list[str]) -> dict[str, Any]:
    rows = {row["name"]: {**row, "href": f"/run/{quote(row['name'])}"} for row in folder.rows()}
    return {"kind": "compare", "title": "compared", "runs": [rows[name] for name in wanted if name in rows]}
