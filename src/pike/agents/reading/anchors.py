"""Span anchors: the places in a plan that are to change, found and verified.

Knows a text in which pairs of marker lines enclose the spans to change, and whether another text
agrees with it outside of them. Does not know models, prompts or the meaning of a change.

An anchored text is a whole file. Each span begins with a line that holds `BEGINS` and ends with one
that holds `ENDS`, alone or behind a comment sign. Its first comment lines are the instruction. Two
texts agree outside the spans if each piece between spans stands in the other text, unbroken and in
order. The first piece stands at its beginning, the last at its end. Some differences are allowed:

- blank lines and white space at the end of a line, everywhere;
- in a file that carries a plan out (`drift`), imports at module level and comment lines before the
  first line of code.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BEGINS = "<<<IMPROVE BEGINS>>>"
ENDS = "<<<IMPROVE ENDS>>>"

_SHOWN = 80
_MARK = re.compile(r"^\s*(?:#+|//+|/\*+|\*)?\s*(?P<mark><<<IMPROVE (?:BEGINS|ENDS)>>>)(?P<rest>.*)$")
_COMMENT = re.compile(r"^\s*(?:#+|//+)\s?(?P<text>.*)$")
_IMPORT = re.compile(r"^(?:import|from)\s")
_CLOSED = re.compile(r"[\s*/#]*$")

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch that is to change.

    Attributes:
        instruction: the change to make, without comment signs.
        code: the lines that stand there now; none if the change inserts lines.
    """

    instruction: str
    code: Lines


@dataclass(frozen=True, slots=True)
class AnchoredText:
    """A text with anchors, taken apart.

    Attributes:
        outside: the lines before, between and behind the spans, one piece more than there are
            spans.
        spans: the stretches to change, in order.
    """

    outside: tuple[Lines, ...]
    spans: tuple[Span, ...]


def marked(text: str) -> bool:
    """Whether a marker stands anywhere in `text`."""
    return BEGINS in text or ENDS in text


def read(text: str) -> AnchoredText:
    """Take an anchored text apart.

    Raises:
        ValueError: there is no anchor, or one is not paired, nested, without an instruction, or
            shares its line.
    """
    outside: list[list[str]] = [[]]
    spans: list[Span] = []
    inside: list[str] | None = None
    for number, line in enumerate(_lines(text), 1):
        mark = _mark(line, number)
        if mark is None:
            (outside[-1] if inside is None else inside).append(line)
        elif mark["mark"] == BEGINS:
            if inside is not None:
                raise ValueError(f"line {number} begins an anchor inside another one")
            beside = mark["rest"].strip().removesuffix("*/").strip()
            inside = [f"# {beside}"] if beside else []
        else:
            if inside is None:
                raise ValueError(f"line {number} ends an anchor that was not begun")
            spans.append(_span(inside, number))
            outside.append([])
            inside = None
    if inside is not None:
        raise ValueError("the last anchor is not ended")
    if not spans:
        raise ValueError("there is no anchor in it")
    return AnchoredText(tuple(tuple(piece) for piece in outside), tuple(spans))


def mismatch(plan: AnchoredText, seed: str) -> str:
    """The difference between a plan and its seed outside the anchors, empty if there is none."""
    return _misfit([_solid(piece) for piece in plan.outside], _solid(_lines(seed)))


def drift(plan: AnchoredText, source: str) -> str:
    """The change that a file made outside the anchors of its plan, empty if there is none."""
    pieces, heading = [], True
    for piece in plan.outside:
        kept, heading = _counted(piece, heading)
        pieces.append(kept)
    lines, _ = _counted(_lines(source), True)
    return _misfit(pieces, lines)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _mark(line: str, number: int) -> re.Match[str] | None:
    if not marked(line):
        return None
    mark = _MARK.match(line)
    if mark is None or marked(mark["rest"]) or (mark["mark"] == ENDS and not _CLOSED.match(mark["rest"])):
        raise ValueError(f"the anchor in line {number} does not stand on a line of its own")
    return mark


def _span(inside: list[str], number: int) -> Span:
    instruction = []
    for line in inside:
        comment = _COMMENT.match(line)
        if comment is None:
            break
        instruction.append(comment["text"].rstrip())
    text = "\n".join(instruction).strip()
    if not text:
        raise ValueError(f"the anchor that ends in line {number} has no instruction")
    return Span(text, tuple(inside[len(instruction) :]))


def _solid(lines: Iterable[str]) -> list[str]:
    return [line.rstrip() for line in lines if line.strip()]


def _counted(lines: Iterable[str], heading: bool) -> tuple[list[str], bool]:
    """The lines that must not change, and whether all lines so far were headings."""
    kept: list[str] = []
    depth, continued = 0, False
    for line in _solid(lines):
        if depth or continued or _IMPORT.match(line):
            code = line.partition("#")[0].rstrip()
            depth = max(0, depth + code.count("(") - code.count(")"))
            continued = code.endswith("\\")
        elif not (heading and line.startswith("#")):
            kept.append(line)
            heading = False
    return kept, heading


def _misfit(pieces: Sequence[list[str]], lines: list[str]) -> str:
    """Why `pieces` do not stand in `lines` as an anchored text demands, empty if they do."""
    first, *between, last = pieces
    for wanted, found in zip(first, lines, strict=False):
        if wanted != found:
            return _differ(wanted, found)
    for wanted, found in zip(reversed(last), reversed(lines), strict=False):
        if wanted != found:
            return _differ(wanted, found)
    at, end = len(first), len(lines) - len(last)
    if at > end:
        return "the plan has more lines outside the anchors than the whole file"
    for piece in between:
        place = next((i for i in range(at, end - len(piece) + 1) if lines[i : i + len(piece)] == piece), None)
        if place is None:
            return _gone(piece, lines[at:end])
        at = place + len(piece)
    return ""


def _differ(wanted: str, found: str) -> str:
    return f"outside the anchors, the plan has {_quoted(wanted)} where the file has {_quoted(found)}"


def _gone(piece: list[str], lines: list[str]) -> str:
    missing = next((line for line in piece if line not in lines), None)
    if missing is not None:
        return f"outside the anchors, the plan's line {_quoted(missing)} is not in the file"
    return f"outside the anchors, the plan's lines from {_quoted(piece[0])} on are not together in the file"


def _quoted(line: str) -> str:
    text = line.strip()
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
