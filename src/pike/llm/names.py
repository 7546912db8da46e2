"""The names of models, `--llm NAME`, and which client speaks for each.

Knows the grammar of names; the providers among them come from `vendors`. Does not know any
protocol. A client is imported when it is asked for, so a run without a model needs no LLM package.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from pike.core.errors import UserError
from pike.core.settings.config import NONE, LlmConfig
from pike.llm import vendors
from pike.llm.client import Client
from pike.llm.command import CommandClient
from pike.llm.given import ExternalClient
from pike.llm.scripted import ScriptedClient

REPLAY = "replay:"
"""How names begin that repeat a recorded run."""
BATCH = "batch:"
"""How names begin of models that are asked through their vendor's batch API."""
EXTERNAL = "by-hand"
"""The name for answers from outside the process; journals hold this word."""
_OWN_SERVER = "openai:MODEL@http://HOST:PORT/v1"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A name taken apart.

    Attributes:
        prefix: the form: a provider's prefix, `command`, `scripted`, `replay`, `by-hand` or `none`.
        target: the model, command line, file or run; empty for `none` and `by-hand`.
        url: the address of an OpenAI-compatible server, empty for a provider's own.
        batch: whether it is asked through the vendor's batch API.
    """

    prefix: str
    target: str = ""
    url: str = ""
    batch: bool = False

    @property
    def text(self) -> str:
        """The name in its canonical form."""
        address = f"@{self.url}" if self.url else ""
        way = BATCH if self.batch else ""
        return f"{way}{self.prefix}:{self.target}{address}" if self.target else self.prefix

    @property
    def asks_provider(self) -> bool:
        """Whether it is asked over the network."""
        return vendors.vendor_of(self.prefix) is not None

    @property
    def on_this_machine(self) -> bool:
        """Whether its server runs here, so that it may use the processor that candidates are timed
        on."""
        address = _address_of(self.url)
        return address.is_loopback if address else _host(self.url) == "localhost"

    @property
    def is_local(self) -> bool:
        """Whether its server is here or in a private network, so that nothing is charged."""
        address = _address_of(self.url)
        return self.on_this_machine or (address.is_private if address else _host(self.url).endswith(".local"))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _address_of(url: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(_host(url))
    except ValueError:
        return None


def _no_client(name: ModelName, _: LlmConfig) -> Client:
    raise UserError(f"'{name.text}' asks no model; it can be the model of a whole run, not of one role")


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of a name that is no provider's: its prefix, how it is shown, and its client."""

    prefix: str
    target: str
    connect: Callable[[ModelName, LlmConfig], Client]

    @property
    def shown(self) -> str:
        return f"{self.prefix}:{self.target}" if self.target else self.prefix


_FORMS = (
    _Form(
        "command",
        "PROGRAM ARGS",
        lambda name, config: CommandClient(name.text, _words(name.target), config.timeout_seconds),
    ),
    _Form("replay", "RUN", _no_client),
    _Form("scripted", "FILE", lambda name, _: ScriptedClient.load(name.text, name.target)),
    _Form(EXTERNAL, "", lambda name, _: ExternalClient(name.text)),
    _Form(NONE, "", _no_client),
)
"""Every form but the providers'. The engine itself runs recipes and reads the run to replay."""


def forms() -> str:
    """Every form of a name, for messages."""
    providers = [f"{vendor.prefix}:MODEL" for vendor in vendors.VENDORS]
    own = f"{_OWN_SERVER} (any OpenAI-compatible server)"
    batched = f"{BATCH}VENDOR:MODEL (half the price, within a day)"
    return ", ".join([*providers, own, batched, *(form.shown for form in _FORMS)])


def parse(name: str) -> ModelName:
    """Take a name apart.

    Raises:
        UserError: no form fits, or an address holds credentials (names are journalled).
    """
    text = name.strip()
    if text.startswith(BATCH):
        return _batched(parse(text.removeprefix(BATCH)))
    bare = {form.prefix for form in _FORMS if not form.target}
    if text in bare:
        return ModelName(text)
    prefix, _, target = text.partition(":")
    target = target.strip()
    known = {vendor.prefix for vendor in vendors.VENDORS} | {form.prefix for form in _FORMS} - bare
    if prefix not in known or not target:
        shown = text if "@" not in text else text.partition("@")[0] + "@…"
        raise UserError(f"'{shown}' names no model; the forms are {forms()}")
    if prefix == "command":
        _words(target)
    model, at, url = target.partition("@http")
    if prefix != "openai" or not at:
        return ModelName(prefix, target)
    return ModelName(prefix, model.strip(), _address(model.strip(), f"http{url}"))


def _batched(name: ModelName) -> ModelName:
    able = [vendor.prefix for vendor in vendors.VENDORS if vendor.batches]
    if name.batch or name.url or name.prefix not in able:
        raise UserError(f"'{BATCH}{name.text}' has no batch API: give {BATCH}VENDOR:MODEL of {' or '.join(able)}")
    return replace(name, batch=True)


def connect(name: str, config: LlmConfig) -> Client:
    """The client that speaks for `name`; nothing is sent and no key is needed until it is asked.

    Raises:
        UserError: the name has no known form, asks no model, or its file does not exist.
    """
    parsed = parse(name)
    if vendor := vendors.vendor_of(parsed.prefix):
        from pike.llm.provider import BatchClient, Endpoint, ProviderClient

        endpoint = Endpoint.of(parsed.text, vendor, parsed.target, parsed.url, free=parsed.is_local)
        if parsed.batch:
            return BatchClient(replace(endpoint, batched=True), config.timeout_seconds)
        return ProviderClient(endpoint, config.timeout_seconds)
    (form,) = (form for form in _FORMS if form.prefix == parsed.prefix)
    return form.connect(parsed, config)


def require_keys(names: Iterable[str]) -> None:
    """Check that the environment has the key of each model that needs one; nothing is sent.

    Raises:
        UserError: one is missing.
    """
    from pike.llm.provider import Endpoint

    for parsed in map(parse, names):
        if vendor := vendors.vendor_of(parsed.prefix):
            Endpoint.of(parsed.text, vendor, parsed.target, parsed.url).key()


def _words(line: str) -> tuple[str, ...]:
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
        raise UserError(f"An OpenAI-compatible server is named {_OWN_SERVER}")
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
