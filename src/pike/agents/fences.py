"""Text from elsewhere, put into a prompt so that it stays text.

Knows how to fence any text safely and how to bring what a program printed into a readable form. Does not know what
the text means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STREAM_CHARACTERS = 10_000
"""How much of the end of stdout and of stderr an error fixing agent sees (facts: EFA)."""

_BACKTICKS = re.compile(r"`+")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HEADING = re.compile(r"^--- (stdout|stderr) ---$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stream:
    """The end of what a program printed on one stream."""

    name: str
    text: str


def fence(text: str, info: str = "text") -> str:
    """`text` as a code block whose fence is longer than any run of backticks inside, so nothing in it closes it."""
    body = text.strip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    bar = "`" * max(3, longest + 1)
    return f"{bar}{info}\n{body}\n{bar}"


def printable(text: str) -> str:
    """`text` with plain newlines and without terminal escapes, control or direction-changing characters."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", _ESCAPES.sub("", plain))


def streams(log: str) -> tuple[Stream, ...]:
    """The ends of stdout and stderr in an evaluation's log, at most 10,000 characters each.

    The log marks its streams by lines such as `--- stdout ---`; a log without them counts as one stream.
    """
    pieces = _HEADING.split(printable(log))
    found: dict[str, str] = {"the log": pieces[0]}
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        # A program can print such a line itself; what follows it stays in the end of that stream.
        found[name] = found.get(name, "") + text
    return tuple(Stream(name, text.strip()[-STREAM_CHARACTERS:]) for name, text in found.items() if text.strip())
