"""Blocking calls to an evaluation service, by the standard library's HTTP.

Knows addresses, the token, and what each status code means. Does not know when a call is made
again (`workers`). Each call opens a connection of its own, so that any thread may make it.
"""

import http.client
import json
import os
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

from pike.core.errors import InfraError, UserError

TOKEN = "PIKE_SERVE_TOKEN"
"""The environment variable that a token is taken from."""
ANSWER_SECONDS = 60.0
"""The longest silence of a service; a call that waits does so for 30 s."""
_MOST_WAIT = 60.0


class Refusal(UserError):
    """The service refuses what was asked; `code` says why to programs."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Busy(InfraError):
    """The service takes nothing more for now: ask again after `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Connection:
    """One service at an address.

    Args:
        address: `http://HOST:PORT` or `https://HOST[:PORT]`.
        token: what the service asks for; None for that of the environment.

    Raises:
        UserError: the address is none.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        parts = urlsplit(address)
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host = ""
        if parts.scheme not in ("http", "https") or not self._host or parts.path.strip("/") or parts.query:
            raise UserError(f"'{address}' is no address of an evaluation service: give http://HOST:PORT")
        self.address, self._secure = address.rstrip("/"), parts.scheme == "https"
        self._token = os.environ.get(TOKEN, "") if token is None else token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the service answers.

        Raises:
            Refusal: it refuses; no repetition helps.
            Busy: it takes nothing more for now.
            InfraError: it cannot be reached, or failed.
        """
        with closing(self._opened(method, path, body)) as connection:
            try:
                return self._answered(connection.getresponse())
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._lost(error) from error

    def _opened(self, method: str, path: str, body: Any) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=ANSWER_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        content = None if body is None else json.dumps(body).encode()
        try:
            try:
                connection.request(method, path, content, headers | {"Content-Type": "application/json"})
            except (BrokenPipeError, ConnectionResetError):
                if connection.sock is None:  # else a service that refuses a body answers before it came whole
                    raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from error
        return connection

    def _answered(self, response: http.client.HTTPResponse) -> Any:
        content = response.read()
        if response.status < 300:
            return json.loads(content)
        code, message = "", f"HTTP status {response.status}"
        with suppress(ValueError, TypeError, KeyError):
            problem = json.loads(content)["error"]
            code, message = str(problem["code"]), str(problem["message"])
        if response.status in (429, 503):
            after = response.getheader("Retry-After") or ""
            raise Busy(f"{self._named}: {message}", min(_MOST_WAIT, float(after) if after.isdigit() else 1.0))
        if response.status == 401:
            message += f"; set {TOKEN}"
        if response.status < 500:
            raise Refusal(f"{self._named}: {message}", code)
        raise InfraError(f"{self._named}: {message}")

    @property
    def _named(self) -> str:
        return f"The evaluation service at {self.address}"

    def _lost(self, error: Exception) -> InfraError:
        return InfraError(f"{self._named} cannot be reached: {getattr(error, 'strerror', None) or error!r}")
