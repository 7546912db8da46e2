"""Answers of the evaluation service: JSON in plain ASCII, and refusals that programs can read.

Knows status codes and the form of an error. Does not know what is asked.
"""

import json
import math
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from pike.api.service.desk import Problem
from pike.core.codec import encode
from pike.core.errors import BoundaryError, PikeError, UserError

_WORDS = {404: "not-found", 405: "method-not-allowed"}
_PAUSE_SECONDS = 5.0


class RequestRefused(Exception):
    """A request is refused with a status code and a problem; `seconds` say when to come again."""

    def __init__(self, status: int, code: str, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.problem, self.seconds = status, Problem(code, message), seconds


def answer(value: Any, status: int = 200) -> Response:
    """A record as JSON."""
    return Response(json.dumps(encode(value)), status, media_type="application/json")


async def refusal(_request: Request, error: Exception) -> Response:
    """The answer to what cannot be answered: `{"error": {"code": ..., "message": ...}}`."""
    match error:
        case RequestRefused():
            refused = error
        case RequestValidationError():
            places = {".".join(map(str, one["loc"])): one["msg"] for one in error.errors()}
            refused = RequestRefused(422, "invalid", "; ".join(f"{place}: {words}" for place, words in places.items()))
        case HTTPException():
            code = _WORDS.get(error.status_code, "refused")
            refused = RequestRefused(error.status_code, code, str(error.detail))
        case UserError():
            refused = RequestRefused(422, "unusable", str(error))
        case BoundaryError():
            refused = RequestRefused(503, "unavailable", str(error), _PAUSE_SECONDS)
        case _:
            refused = RequestRefused(500, "bug", f"The service failed: {type(error).__name__}; its log says more")
    response = answer({"error": encode(refused.problem)}, refused.status)
    if refused.seconds:
        response.headers["Retry-After"] = str(math.ceil(refused.seconds))
    if refused.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


HANDLED = (RequestRefused, RequestValidationError, HTTPException, PikeError, Exception)
"""What `refusal` answers."""


async def read_json(request: Request, most_bytes: int) -> Any:
    """The body of a request, which is read no further than allowed.

    Raises:
        RequestRefused: it is too large, or no JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestRefused(415, "no-json", "Send JSON, with Content-Type: application/json")
    declared, body = request.headers.get("content-length", "0"), bytearray()
    too_large = RequestRefused(413, "too-large", f"This takes at most {most_bytes:,} bytes")
    if len(declared) > 15 or int(declared) > most_bytes:
        raise too_large
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise too_large
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "no-json", f"The body is no JSON: {error}") from error
