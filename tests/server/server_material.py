"""Clients that speak to a server, and what they send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from pike import server
from pike.api.external import ExternalRuns

TOKEN = "a-token-for-tests-only"
MODEL = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
MODEL += "def get_inputs():\n    return [torch.ones(2)]\n\n\ndef get_init_inputs():\n    return []\n"


def file(instant: str, mark: str = "x") -> str:
    """A candidate that gets the verdict `instant`."""
    return f"import torch\n# pike-instant: {instant}\nclass ModelNew(torch.nn.Module):\n    mark = {mark!r}\n"


Call = Callable[..., Any]


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool that must work."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def error(client: Client, tool: str, **arguments: Any) -> str:
    """The sentence of a tool that must refuse."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return result.content[0].text


@asynccontextmanager
async def served(offer: server.Offer, external: ExternalRuns, token: str = TOKEN) -> AsyncIterator[str]:
    """A server over HTTP on a free port; gives its URL."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(server.serve_http(offer, "127.0.0.1", 0, token, address.set_result, external))
    done, _ = await asyncio.wait({serving, address}, return_when=asyncio.FIRST_COMPLETED)
    if serving in done:
        await serving
    try:
        yield await address
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def client_of(url: str, token: str = TOKEN) -> AsyncIterator[Client]:
    """A real client over HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
