"""Free checks of a key and a model.

Knows which pages a provider serves without charge and how to read their refusals. Does not know how to ask for
an answer (`provider`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pike.core.errors import PikeError, ProviderError
from pike.llm import failures
from pike.llm.vendors import Endpoint

if TYPE_CHECKING:
    import httpx2

PROBE_SECONDS = 30.0


async def probe(target: Endpoint, http: httpx2.AsyncClient) -> bool:
    """Whether key and model are proven good; False where this provider's free pages cannot tell.

    Raises:
        UserError: the key is refused or the model unknown.
        ProviderError: the provider could not be reached or failed.
    """
    if target.compatible:
        return await _probe_compatible(target, http)
    for path in target.vendor.probe_paths:
        response = await _get(target, http, path.format(model=quote(target.model, safe="/:")))
        if response.status_code >= 400:
            raise _refusal(target, response)
    if target.vendor.listed and target.model.partition(":")[0] not in {n.partition(":")[0] for n in _ids(response)}:
        raise failures.unknown_model(target)
    return True


async def _probe_compatible(target: Endpoint, http: httpx2.AsyncClient) -> bool:
    """Servers differ: some list no models, some answer to names that they do not list."""
    response = await _get(target, http, "/models")
    if response.status_code in (401, 403):
        raise failures.key_refused(target)
    return response.status_code == 200 and target.model in _ids(response)


async def _get(target: Endpoint, http: httpx2.AsyncClient, path: str) -> httpx2.Response:
    import httpx2

    vendor = target.vendor
    headers = {**vendor.headers, vendor.key_header: f"{vendor.key_prefix}{target.key()}"}
    try:
        return await http.get(f"{target.base_url}{path}", headers=headers, timeout=PROBE_SECONDS)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = type(error).__name__
    raise ProviderError(f"'{target.name}' cannot be reached at {target.base_url} ({reason})", transient=True)


def _refusal(target: Endpoint, response: httpx2.Response) -> PikeError:
    if response.status_code == 400 and "API_KEY_INVALID" in response.text:
        # Google calls a bad key a bad request.
        return failures.key_refused(target)
    return failures.from_status(target, response.status_code, response.text)


def _ids(response: httpx2.Response) -> set[str]:
    try:
        body: Any = response.json()
    except ValueError:
        return set()
    rows = body.get("data") if isinstance(body, dict) else None
    return {str(row.get("id")) for row in rows or () if isinstance(row, dict)}
