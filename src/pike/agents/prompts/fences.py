"""Foreign text in a prompt: fenced so that it stays text.

Knows how to fence any text safely and how to part the output of a program. Does not know the
meaning of the text.
"""

import re
from dataclasses import dataclass

from pike.agents.prompts.tracebacks import own_part
from pike.core.text.printable import printable

STREAM_CHARACTERS = 10_000
"""The published limit of stdout and of stderr that an error fixing agent sees."""

_BACKTICKS = re.compile(r"`+")
_HEADING = re.compile(r"^--- (stdout|stderr) ---$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stream:
    """The end of a program's output on one stream."""

    name: str
    text: str


def fence(text: str, info: str = "text") -> str:
    """`text` as a code block, with a fence longer than any run of backticks inside."""
    body = text.strip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    bar = "`" * max(3, longest + 1)
    return f"{bar}{info}\n{body}\n{bar}"


def streams(log: str) -> tuple[Stream, ...]:
    """The ends of stdout and stderr in an evaluation's log, at most 10,000 characters each.

    The log marks its streams by lines such as `--- stdout ---`; a log without them counts as one
    stream. Of a traceback, the candidate's own frames are left.
    """
    pieces = _HEADING.split(printable(log))
    found: dict[str, str] = {"the log": pieces[0]}
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        # A program can print such a line itself; the text after it stays in that stream.
        found[name] = found.get(name, "") + text
    shown = {name: own_part(text) for name, text in found.items()}
    return tuple(Stream(name, text[-STREAM_CHARACTERS:]) for name, text in shown.items() if text)
