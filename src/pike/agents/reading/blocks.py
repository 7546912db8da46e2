"""Fenced code blocks in Markdown as language models write it.

Knows fences of backticks and tildes: of any length, indented, with any info string, unclosed, and
with fences inside the code. Does not know Python: a caller decides when a block is whole.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<bar>`{3,}|~{3,})(?P<info>[^\n]*)$")
_CLOSINGS_TRIED = 8
"""The most closing fences that are tried as the end of one block."""
_MOST_BLOCKS = 100
"""No honest answer has more; later blocks are not read."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One code block.

    Attributes:
        text: its content, without the indentation of its fence.
        info: the text after the opening fence, for example `python`.
        closed: whether a closing fence was found.
    """

    text: str
    info: str
    closed: bool


def blocks(text: str, whole: Callable[[str], bool] = lambda _: False) -> list[CodeBlock]:
    """All code blocks of `text`, in order.

    Code may hold fences itself, for example in a docstring. So a block ends at the first closing
    fence at which `whole` accepts the content. If `whole` accepts none, the first closing fence
    counts, unless another block is opened before it: then this one was never closed.
    """
    lines = text.split("\n")
    marks = [(index, mark) for index, line in enumerate(lines) if (mark := _FENCE.match(line))]
    found: list[CodeBlock] = []
    at = 0
    for number, (index, opening) in enumerate(marks):
        if index < at or (opening["bar"][0] == "`" and "`" in opening["info"]):
            continue
        if len(found) == _MOST_BLOCKS:
            break
        end, closed = _end(lines, marks[number:], whole)
        content = _dedent(lines[index + 1 : end], opening["indent"])
        found.append(CodeBlock(content, opening["info"].strip(), closed))
        at = end + 1 if closed else end
    return found


def _end(lines: list[str], marks: list[tuple[int, re.Match[str]]], whole: Callable[[str], bool]) -> tuple[int, bool]:
    """The line at which the first mark's block ends, and whether a fence closes it there."""
    at, opening = marks[0]
    closings: list[int] = []
    reopened = len(lines)
    for index, mark in marks[1:]:
        if mark["bar"][0] != opening["bar"][0] or len(mark["bar"]) < len(opening["bar"]):
            continue
        if mark["info"].strip():
            reopened = min(reopened, index)
            continue
        closings.append(index)
        if len(closings) == _CLOSINGS_TRIED:
            break
    for index in closings:
        if whole(_dedent(lines[at + 1 : index], opening["indent"])):
            return index, True
    first = closings[0] if closings else len(lines)
    return (first, True) if first < reopened else (reopened, False)


def _dedent(lines: list[str], indent: str) -> str:
    return "\n".join(line.removeprefix(indent) for line in lines)
