"""The server over HTTP, with the SDK's own client: who gets in, and what two clients and lost clients see."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from server_material import TOKEN, call, client_of, file, served

from pike import server
from pike.api.external import ExternalRuns
from pike.api.views import summarise
from pike.core.errors import UserError
from pike.engine.executors.instant import InstantExecutor

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_only_who_shows_the_token_gets_in(offer, external) -> None:
    async with served(offer, external) as url, httpx.AsyncClient(headers=ACCEPT) as http:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        for shown in (None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            headers = {} if shown is None else {"Authorization": shown}
            refused = await http.post(url, json=INITIALIZE, headers=headers)
            assert refused.status_code == 401, shown
            assert TOKEN not in refused.text
        allowed = await http.post(url, json=INITIALIZE, headers={"Authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 200
    assert not offer.root.exists()


async def test_another_site_in_a_browser_does_not_get_in(offer, external) -> None:
    headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}", "Origin": "https://example.com"}
    async with served(offer, external) as url, httpx.AsyncClient(headers=headers) as http:
        assert (await http.post(url, json=INITIALIZE)).status_code == 403


async def test_a_request_that_is_far_too_large_is_refused(offer, external) -> None:
    headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
    async with served(offer, external) as url, httpx.AsyncClient(headers=headers) as http:
        assert (await http.post(url, json={**INITIALIZE, "id": "x" * 5_000_000})).status_code == 413


async def test_two_clients_share_a_run_and_its_budget(offer, external) -> None:
    async with served(offer, external) as url, client_of(url) as one, client_of(url) as other:
        run = (await call(one, "start_run", task="tiny"))["run"]
        told = await asyncio.gather(
            call(one, "submit", source=file("valid 4ms"), author="one"),
            call(other, "submit", source=file("valid 2ms"), author="other"),
        )
        assert {reply["candidate"] for reply in told} == {"c0", "c1"}
        assert (await call(other, "budget"))["queries_left"] == 1
        assert {row["author"] for row in (await call(one, "lineage", run=run))["candidates"]} == {"one", "other"}


async def test_a_client_that_goes_away_in_the_middle_loses_nothing(offer) -> None:
    external = ExternalRuns(InstantExecutor(delay_seconds=0.5), load=None)
    async with served(offer, external) as url:
        async with client_of(url) as leaving:
            run = (await call(leaving, "start_run", task="tiny"))["run"]
            calling = asyncio.create_task(leaving.call_tool("submit", {"source": file("valid 2ms")}))
            await asyncio.sleep(0.2)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        async with client_of(url) as coming:
            assert (await call(coming, "submit", source=file("valid 4ms"), run=run))["candidate"] == "c1"
    assert [entrant.speedup for entrant in summarise(offer.root / run).entrants] == [5.0, 2.5]


async def test_a_server_that_ends_carries_the_move_in_hand_to_its_end(offer) -> None:
    external = ExternalRuns(InstantExecutor(delay_seconds=0.5), load=None)
    async with served(offer, external) as url:
        client = client_of(url)
        opened = await client.__aenter__()
        run = (await call(opened, "start_run", task="tiny"))["run"]
        calling = asyncio.create_task(opened.call_tool("submit", {"source": file("valid 2ms")}))
        await asyncio.sleep(0.2)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await client.__aexit__(None, None, None)
    assert [entrant.speedup for entrant in summarise(offer.root / run).entrants] == [5.0]


async def test_a_port_that_is_taken_is_named(offer, external) -> None:
    async with served(offer, external) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UserError, match=f"port {port}"):
            await server.serve_http(
                offer, "127.0.0.1", port, TOKEN, lambda _: None, ExternalRuns(InstantExecutor(), load=None)
            )


def test_who_can_be_reached_by_others_needs_a_token() -> None:
    assert server.check_token(None, "127.0.0.1", without=True) == ""
    assert server.check_token(None, "localhost", without=True) == ""
    for host in ("0.0.0.0", "::", "192.168.1.5", "gpu-machine"):
        with pytest.raises(UserError, match="needs a token"):
            server.check_token(None, host, without=True)
    drawn = {server.check_token(None, "0.0.0.0", without=False) for _ in range(3)}
    assert len(drawn) == 3
    assert min(map(len, drawn)) > 40
    assert server.check_token("chosen-by-the-user", "127.0.0.1", without=False) == "chosen-by-the-user"
    with pytest.raises(UserError, match="too short"):
        server.check_token("short", "127.0.0.1", without=False)
