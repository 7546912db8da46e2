"""Free checks of a key and a model.

Knows how a provider's free pages are read and what their refusals mean. Does not ask for an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pike.core.errors import PikeError, ProviderError
from pike.llm.provider import failures
from pike.llm.provider.endpoint import Endpoint

if TYPE_CHECKING:
    import httpx2

PROBE_SECONDS = 30.0


async def probe(endpoint: Endpoint, http: httpx2.AsyncClient) -> bool:
    """Whether key and model are proven good; False where this provider's free pages cannot tell.

    Raises:
        UserError: the key is refused or the model unknown.
        ProviderError: the provider could not be reached or failed.
    """
    if endpoint.own_server:
        return await _probe_own_server(endpoint, http)
    for path in endpoint.vendor.probe_paths:
        response = await _get(endpoint, http, path.format(model=quote(endpoint.model, safe="/:")))
        if response.status_code >= 400:
            raise _refusal(endpoint, response)
    if endpoint.vendor.lists_models and endpoint.model.partition(":")[0] not in {
        n.partition(":")[0] for n in _ids(response)
    }:
        raise failures.unknown_model(endpoint)
    return True


async def _probe_own_server(endpoint: Endpoint, http: httpx2.AsyncClient) -> bool:
    """Servers differ: some list no models, some answer to names that they do not list."""
    response = await _get(endpoint, http, "/models")
    if response.status_code in (401, 403):
        raise failures.key_refused(endpoint)
    return response.status_code == 200 and endpoint.model in _ids(response)


async def _get(endpoint: Endpoint, http: httpx2.AsyncClient, path: str) -> httpx2.Response:
    import httpx2

    vendor = endpoint.vendor
    headers = {**vendor.headers, vendor.key_header: f"{vendor.key_scheme}{endpoint.key()}"}
    try:
        return await http.get(f"{endpoint.base_url}{path}", headers=headers, timeout=PROBE_SECONDS)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = type(error).__name__
    raise ProviderError(f"'{endpoint.name}' cannot be reached at {endpoint.base_url} ({reason})", transient=True)


def _refusal(endpoint: Endpoint, response: httpx2.Response) -> PikeError:
    if response.status_code == 400 and "API_KEY_INVALID" in response.text:
        # Google calls a bad key a bad request.
        return failures.key_refused(endpoint)
    return failures.from_status(endpoint, response.status_code, response.text)


def _ids(response: httpx2.Response) -> set[str]:
    try:
        body: Any = response.json()
    except ValueError:
        return set()
    rows = body.get("data") if isinstance(body, dict) else None
    return {str(row.get("id")) for row in rows or () if isinstance(row, dict)}
