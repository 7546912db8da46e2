"""Who may ask an evaluation service for what, and how much of it.

Knows the file of tokens, which holds their SHA-256 only. Does not know HTTP. A task's own code runs
outside of every sandbox, as the judge must. So to bring a task is a scope of its own, and no caller
without a token has it.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pike.api.service.desk import DIGEST, Quota
from pike.core.errors import UserError, reason_of
from pike.core.settings.merging import nearest

SUBMIT, READ, TASKS, ADMIN = "submit", "read", "tasks", "admin"
SCOPES = (SUBMIT, READ, TASKS, ADMIN)
_FIELDS = ("sha256", "scopes", "most_queued", "most_per_hour")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: the owner of what is submitted.
        scopes: of `submit` (and cancel), `read`, `tasks` (bring tasks) and `admin` (everything).
        quota: how much.
    """

    name: str
    scopes: frozenset[str]
    quota: Quota = field(default_factory=Quota)

    def may(self, scope: str) -> bool:
        """Whether something is allowed."""
        return scope in self.scopes or ADMIN in self.scopes


class ServiceTokens:
    """The callers by the SHA-256 of their tokens.

    Args:
        known: all that have a token.
        freely: whether a caller without one may submit and read; only where others cannot connect.
    """

    def __init__(self, known: Mapping[str, Caller], *, freely: bool) -> None:
        self._known = dict(known)
        self._nobody = Caller("local", frozenset((SUBMIT, READ))) if freely else None

    def caller(self, authorization: list[str]) -> Caller | None:
        """Who shows these headers; None for nobody that is known."""
        if not authorization:
            return self._nobody
        scheme, _, token = authorization[0].partition(" ")
        if len(authorization) > 1 or scheme.lower() != "bearer":
            return None
        return self._known.get(digest_of(token))


def digest_of(token: str) -> str:
    """What stands for a token in the file; tokens are random, so that no slow hash is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def administrator(token: str) -> dict[str, Caller]:
    """The one caller of a server with a single token."""
    return {digest_of(token): Caller("admin", frozenset((ADMIN,)))}


def read_tokens(path: Path) -> dict[str, Caller]:
    """The callers of a file: a table for each name.

    Raises:
        UserError: it cannot be read, or says something that is not understood.
    """
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"The tokens in {path} cannot be read: {reason_of(error)}") from error
    found = dict(_caller(path, name, table) for name, table in tables.items())
    if len(found) < max(1, len(tables)):
        raise UserError(f"{path} names no token, or one twice: give each name a table with its own sha256")
    return found


def _caller(path: Path, name: str, table: Any) -> tuple[str, Caller]:
    if not isinstance(table, dict):
        raise UserError(f"{path}: '{name}' is no table; write [{name}] and below it sha256 = ...")
    where = f"{path}, [{name}]"
    for key in table.keys() - set(_FIELDS):
        raise UserError(f"{where}: there is no '{key}'{nearest(key, _FIELDS)}")
    digest, scopes = table.get("sha256"), table.get("scopes", [SUBMIT, READ])
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise UserError(f"{where}: sha256 is the SHA-256 of a token, 64 hexadecimal digits")
    if not isinstance(scopes, list) or not all(scope in SCOPES for scope in scopes):
        raise UserError(f"{where}: scopes is a list of {', '.join(SCOPES)}")
    numbers = [table.get(key, 0) for key in _FIELDS[2:]]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise UserError(f"{where}: most_queued and most_per_hour are whole numbers, 0 for no limit")
    return digest, Caller(name, frozenset(scopes), Quota(*numbers))
