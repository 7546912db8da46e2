"""The names of models, `--llm NAME`, and who stands behind each.

Knows the grammar of names and which client speaks for which form. Does not know any protocol, and imports a
client only when it is asked for, so that a run without an LLM needs no LLM package.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from pike.core.config import LlmConfig
from pike.core.errors import UserError
from pike.llm.client import Client


class Kind(StrEnum):
    """The forms of a name, by their prefix."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    OPENROUTER = "openrouter"
    COMMAND = "command"
    REPLAY = "replay"
    SCRIPTED = "scripted"
    BY_HAND = "by-hand"
    NONE = "none"


PROVIDERS = frozenset({Kind.OPENAI, Kind.ANTHROPIC, Kind.GOOGLE, Kind.OPENROUTER})
"""The kinds that are asked over the network."""

_BARE = frozenset({Kind.BY_HAND.value, Kind.NONE.value})
"""The names without a target."""

FORMS = (
    "openai:MODEL, anthropic:MODEL, google:MODEL, openrouter:MODEL, openai:MODEL@http://HOST:PORT/v1 "
    "(any OpenAI-compatible server), command:PROGRAM ARGS, replay:RUN, scripted:FILE, by-hand, none"
)
"""Every form of a name, for messages."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """A name taken apart.

    Attributes:
        kind: the form.
        target: the model, command line, run or file; empty for `none` and `by-hand`.
        url: the base address of an OpenAI-compatible server, empty for a provider's own.
    """

    kind: Kind
    target: str = ""
    url: str = ""

    @property
    def text(self) -> str:
        """The name in its canonical form."""
        address = f"@{self.url}" if self.url else ""
        return f"{self.kind.value}:{self.target}{address}" if self.target else self.kind.value


def parse(name: str) -> ModelName:
    """Take a name apart.

    Raises:
        UserError: no form fits, or an address holds credentials (names are journalled).
    """
    text = name.strip()
    if text in _BARE:
        return ModelName(Kind(text))
    prefix, _, target = text.partition(":")
    target = target.strip()
    known = {kind.value for kind in Kind} - _BARE
    if prefix not in known or not target:
        shown = text if "@" not in text else text.partition("@")[0] + "@…"
        raise UserError(f"'{shown}' names no model; the forms are {FORMS}")
    kind = Kind(prefix)
    if kind is Kind.COMMAND:
        _command(target)
        return ModelName(kind, target)
    model, at, url = target.partition("@http")
    if kind is not Kind.OPENAI or not at:
        return ModelName(kind, target)
    return ModelName(kind, model.strip(), _address(model.strip(), f"http{url}"))


def connect(name: str, config: LlmConfig) -> Client:
    """The client that speaks for `name`; nothing is sent and no key is needed until `check` or `complete`.

    `none` and `replay:` have no client here: the engine runs recipes for the one and reads a journal for the
    other (`pike.llm.replay.ReplayClient`); it calls `parse` first and asks here only for the rest.

    Raises:
        UserError: the name has no known form, or its file or program does not exist.
    """
    parsed = parse(name)
    if parsed.kind in PROVIDERS:
        from pike.llm.provider import ProviderClient

        return ProviderClient(parsed, config.timeout_seconds)
    if parsed.kind is Kind.COMMAND:
        from pike.llm.command import CommandClient

        return CommandClient(parsed.text, _command(parsed.target), config.timeout_seconds)
    if parsed.kind is Kind.SCRIPTED:
        from pike.llm.scripted import ScriptedClient

        return ScriptedClient.load(parsed.text, parsed.target)
    if parsed.kind is Kind.BY_HAND:
        from pike.llm.hand import HandClient

        return HandClient()
    raise UserError(f"'{parsed.text}' asks no model; it can be the model of a whole run, not of one role")


def _command(line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise UserError(f"'command:{line}' cannot be split into words: {error}; check its quotes") from None
    if not words:
        raise UserError("'command:' needs a program, for example command:my-agent --print")
    return words


def _address(model: str, url: str) -> str:
    parts = urlsplit(url)
    if not model or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("An OpenAI-compatible server is named openai:MODEL@http://HOST:PORT/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            f"The address of 'openai:{model}' holds more than host and path, which would be written to the journal; "
            "put its key into OPENAI_API_KEY instead"
        )
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise UserError(f"The address of 'openai:{model}' has a port that is no number") from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
