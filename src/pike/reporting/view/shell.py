"""The file around a page: its policy, styles, data and script, all in one document.

Knows that sources and logs are untrusted: data stands in blocks that nothing executes, and the
policy admits only the shipped script, by its digest. Does not know what a page shows.
"""

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pike.core.text.printable import printable

SCRIPTS = ("dom.js", "chart.js", "diff.js", "list.js", "details.js", "run.js", "index.js", "live.js", "main.js")
CHUNK_CHARACTERS = 400_000
"""Details are compressed together up to this length, and loaded together."""
MOST_BYTES = 60_000_000
"""The most that the compressed details of a page may take; later candidates then lack theirs."""


@dataclass(slots=True)
class _Chunks:
    """Details of candidates, compressed in groups: id -> number of its group."""

    where: dict[str, int] = field(default_factory=dict)
    packed: list[str] = field(default_factory=list)
    left_out: int = 0
    _waiting: dict[str, Any] = field(default_factory=dict)
    _length: int = 0
    _bytes: int = 0

    def take(self, name: str, value: dict[str, Any]) -> None:
        if self._bytes > MOST_BYTES:
            self.left_out += 1
            return
        self._waiting[name] = value
        self._length += sum(len(part) for part in value.values() if isinstance(part, str))
        if self._length > CHUNK_CHARACTERS:
            self.close()

    def close(self) -> None:
        if self._waiting:
            self.where.update(dict.fromkeys(self._waiting, len(self.packed)))
            packed = gzip.compress(as_json(self._waiting).encode(), 6, mtime=0)
            self.packed.append(base64.b64encode(packed).decode())
            self._bytes += len(self.packed[-1])
        self._waiting, self._length = {}, 0


def page(view: dict[str, Any], details: Iterable[tuple[str, dict[str, Any]]] = (), said: str = "") -> Iterator[str]:
    """The document in pieces, to be written one after the other.

    Args:
        view: what the page shows.
        details: what it shows of each candidate once that is opened, by its id.
        said: the result in words, for a reader without scripts.
    """
    chunks = _Chunks()
    for name, value in details:
        chunks.take(name, value)
    chunks.close()
    data = {**view, "where": chunks.where, "leftOut": chunks.left_out}
    terms = {"title": view.get("title", ""), "said": said, "data": Markup(embedded(data)), "chunks": chunks.packed}
    terms |= {"style": Markup(style()), "script": Markup(script()), "policy": policy(served=view["kind"] == "live")}
    template = environment().get_template("shell.html")
    yield from template.generate(terms)


def embedded(value: Any) -> str:
    """A value as JSON that can stand in a script element: no text in it can end the element."""
    text = as_json(value)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def as_json(value: Any) -> str:
    """A value as one line of JSON, whose texts hold nothing that steers or reverses."""
    return json.dumps(_printable(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {name: _printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def policy(*, served: bool = False) -> str:
    """The content security policy: the shipped script and styles, by their digests, nothing else.

    Args:
        served: the page may ask the server that it came from.
    """
    parts = [
        "default-src 'none'",
        f"script-src {_digest(script())}",
        f"style-src {_digest(style())}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*parts, *(["connect-src 'self'"] if served else [])])


@cache
def script() -> str:
    """All scripts of a page as one function of their own."""
    folder = files("pike.reporting") / "assets"
    texts = [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(texts) + "\n})();\n"


@cache
def style() -> str:
    """The styles of all pages."""
    return "\n" + (files("pike.reporting") / "templates" / "style.css").read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Where templates are found; everything that they show is escaped."""
    return Environment(
        loader=PackageLoader("pike.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
