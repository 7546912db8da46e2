"""The two transports of the MCP server: standard streams, and streamable HTTP behind a token.

Knows addresses, tokens and how a server ends. Does not know any tool. A caller of the HTTP port can
have files judged on this machine. So the server listens on the loopback interface and asks for a
bearer token, unless it is told otherwise.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pike.api.external import ExternalRuns
from pike.core.errors import UserError, needing
from pike.server.runs import Offer, Runs

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_VARIABLE = "PIKE_MCP_TOKEN"
"""The environment variable that a token is taken from."""
LEAST_TOKEN = 16
"""Characters of the shortest token that is taken."""
PATH = "/mcp"


def check_token(given: str | None, host: str, *, without: bool) -> str:
    """Choose the token that callers must show, empty for none.

    Args:
        given: the value of the environment variable, None or empty for a random token.
        host: where the server will listen.
        without: the user wants none.

    Raises:
        UserError: no token is wanted on an address that others can reach, or it is too short.
    """
    if without:
        if not is_loopback(host):
            raise UserError(f"A server on {host} can be reached by others and needs a token: leave out --no-token")
        return ""
    return token_from(given, TOKEN_VARIABLE)


def token_from(given: str | None, variable: str) -> str:
    """The token of an environment variable, or a random one.

    Raises:
        UserError: it is too short.
    """
    if given and len(given) < LEAST_TOKEN:
        raise UserError(f"The token in {variable} is too short: use at least {LEAST_TOKEN} characters")
    return given or secrets.token_urlsafe(32)


async def serve_stdio(offer: Offer, external: ExternalRuns | None = None) -> None:
    """Serve on this process's standard streams until the client closes them.

    Moves that were begun are carried to their end.

    Raises:
        UserError: the extra `mcp` is missing, or there is nothing to offer.
    """
    async with aclosing(external or ExternalRuns()) as moves:
        await _built(offer, moves).run_stdio_async()


async def serve_http(
    offer: Offer, host: str, port: int, token: str, started: Callable[[str], None], external: ExternalRuns | None = None
) -> None:
    """Serve on an address until the process is told to stop.

    Args:
        offer: what is offered.
        host: an address of this machine.
        port: 0 for any free one.
        token: what callers must show, empty for nothing.
        started: called with the server's URL once it listens.
        external: makes the moves, None for a new one.

    Raises:
        UserError: the extra `mcp` is missing, there is nothing to offer, or the address cannot
            be used.
    """
    async with aclosing(external or ExternalRuns()) as moves:
        app: ASGIApp = _built(offer, moves).streamable_http_app(streamable_http_path=PATH, host=host)
        gated = TokenGate(app, token) if token else app
        await serve_app(gated, host, port, lambda url: started(url + PATH), timeout_graceful_shutdown=3)


class TokenGate:
    """Lets requests with the token pass; all others get 401 and reach nothing behind it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan" or shows_token(scope, self._token):
            await self._app(scope, receive, send)
        else:
            words = f"This PIKE server asks for its token: Authorization: Bearer <{TOKEN_VARIABLE}>\n"
            await refuse(send, 401, words, (b"www-authenticate", b"Bearer"))


def shows_token(scope: Scope, token: str) -> bool:
    """Whether a request carries the bearer token, exactly once."""
    shown = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
    return len(shown) == 1 and hmac.compare_digest(shown[0], f"Bearer {token}".encode())


async def refuse(send: Send, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer a request with a plain sentence instead of what it asked for."""
    head = [(b"content-type", b"text/plain; charset=utf-8"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": words.encode()})


async def serve_app(app: ASGIApp, host: str, port: int, started: Callable[[str], None], **options: Any) -> None:
    """Serve an application until the process is told to stop.

    Args:
        app: it.
        host: an address of this machine.
        port: 0 for any free one.
        started: called with the server's URL once it listens.
        options: more for uvicorn.

    Raises:
        UserError: the address cannot be used.
    """
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", **options)
    with listen(host, port) as listener:
        started(url_of(listener))
        await uvicorn.Server(config).serve(sockets=[listener])


def _built(offer: Offer, external: ExternalRuns) -> MCPServer[Any]:
    with needing("The MCP server", "mcp"):
        from pike.server.tools import build
    return build(Runs(external, offer))


def url_of(listener: socket.socket) -> str:
    """The address of a socket that listens, for a browser."""
    name, at = listener.getsockname()[:2]
    return f"http://{f'[{name}]' if ':' in name else name}:{at}"


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the address; port 0 is any free one.

    Raises:
        UserError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only on sockets that are said to be TCP; else each waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}; choose another --port"
        ) from error
    return listener
