"""What every request to the dashboard must pass: the right host, and a token where one is needed.

Knows headers. Does not know pages. The list of hosts keeps other sites from reaching a loopback
server through a name of their own that points here. A token travels in a header that no other site
can make a browser send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pike.api.views import policy
from pike.server.serve import refuse, shows_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class DashboardAccess:
    """Who may do what.

    Attributes:
        token: what a caller shows to pause, stop or resume a run.
        hosts: the names and addresses under which the server answers.
        look_freely: whether reading needs no token; only where nobody else can connect.
    """

    token: str
    hosts: tuple[str, ...] = LOOPBACK
    look_freely: bool = True


class Guard:
    """Refuses what it must and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, access: DashboardAccess) -> None:
        self._app = app
        self._access = access
        self._headers = [
            (b"content-security-policy", f"{policy(served=True)}; frame-ancestors 'none'".encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        if scope["type"] != "http":
            return
        if host_of(scope) not in self._access.hosts:
            await refuse(guarded, 403, "This name is not one that the server answers to: see --allow-host")
        elif self._needs_token(scope) and not shows_token(scope, self._access.token):
            await refuse(guarded, 401, "This needs the token that pike serve printed")
        else:
            await self._app(scope, receive, guarded)

    def _needs_token(self, scope: Scope) -> bool:
        if scope["method"] not in ("GET", "HEAD"):
            return True
        return not self._access.look_freely and scope["path"].startswith("/api/")


def host_of(scope: Scope) -> str:
    """The name under which a request reached the server, without the port; empty if it names none."""
    shown = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    name = shown[0].lower() if len(shown) == 1 else ""
    return name if name.endswith("]") else name.rpartition(":")[0] or name
