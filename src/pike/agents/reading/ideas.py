"""The ideas in a brainstormed answer, at most 10.

Knows lists in every style that models write: numbers, bullets, headings, bold titles and JSON, with
details and code in between. Does not know how ideas are used, and never raises: an unusable answer
has none.
"""

import json
import re
from dataclasses import dataclass

MOST_IDEAS = 10
IDEA_CHARACTERS = 2_000
"""Longer ideas are cut: a prompt shows them whole."""
_LEAST_CHARACTERS = 3
_ANSWER_CHARACTERS = 400_000
_MOST_ITEMS = 100

_LABEL = r"(?:(?:idea|step|optimi[sz]ation|option|no\.?|#)\s*)?"
_HEADING = "heading"
_STYLES = {
    "numbered heading": re.compile(
        rf"^#{{1,6}}\s+\**{_LABEL}\(?\d{{1,2}}\)?\s*[.):\-–—]?\s*\**\s*(.*)$", re.IGNORECASE
    ),
    "number": re.compile(rf"^\**{_LABEL}\(?\d{{1,2}}[.):](?!\d)\**\s*[:\-–—]?\s*(.*)$", re.IGNORECASE),
    _HEADING: re.compile(r"^#{1,6}\s+(.*)$"),
    "bullet": re.compile(r"^[-*+•‣◦▪–—]\s+(.*)$"),
    "bold": re.compile(r"^(\*\*[^*\n]{2,}\*\*.*)$"),
}
_FENCE = re.compile(r"^\s*(```|~~~)")
_NO_IDEA = re.compile(r"(?:none|null|n/?a|(?:idea|step|option)?[\s\d.:#-]*)", re.IGNORECASE)
_MARKS = re.compile(r"\*\*|__")


@dataclass(frozen=True, slots=True)
class _Item:
    """The beginning of a list item; the style of a heading includes its level."""

    line: int
    style: str
    indent: int
    text: str


def parse_ideas(answer: str) -> tuple[str, ...]:
    """At most 10 ideas, in the order of the answer (best first); empty when it holds no list."""
    text = answer[:_ANSWER_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    lines = text.split("\n")
    found = _from_json(text) or _from_list(lines, _items(lines))
    ideas: dict[str, str] = {}
    for idea in found:
        clean = _MARKS.sub("", idea).strip()[:IDEA_CHARACTERS].strip()
        if len(clean) >= _LEAST_CHARACTERS and any(map(str.isalpha, clean)) and not _NO_IDEA.fullmatch(clean):
            ideas.setdefault(clean.lower(), clean)
    return tuple(ideas.values())[:MOST_IDEAS]


def _items(lines: list[str]) -> list[_Item]:
    """Everything that may begin an item; code blocks are passed over."""
    found = []
    fenced = ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fenced = "" if fenced == mark[1] else fenced or mark[1]
            continue
        body = line.lstrip()
        for style, pattern in _STYLES.items():
            if not fenced and (match := pattern.match(body)):
                level = len(body) - len(body.lstrip("#")) if style == _HEADING else 0
                found.append(_Item(number, f"{style}{level or ''}", len(line) - len(body), match[1].strip()))
                break
    return found


def _from_list(lines: list[str], items: list[_Item]) -> list[str]:
    """The items of the one list that holds the ideas, each with everything down to the next."""
    style = _style(items)
    if not style:
        return []
    least = min(item.indent for item in items if item.style == style)
    chosen = [item for item in items if item.style == style and item.indent <= least + 1]
    # Headings such as "Memory" or "Summary" end an item of a list below them, and begin none.
    borders = {item.line for item in chosen} | {item.line for item in items if item.style.startswith(_HEADING)}
    ideas = []
    for item in chosen[:_MOST_ITEMS]:
        end = next((line for line in range(item.line + 1, len(lines)) if line in borders), len(lines))
        ideas.append("\n".join([item.text, *lines[item.line + 1 : end]]).strip())
    return ideas


def _style(items: list[_Item]) -> str:
    """The style of the outermost list; numbers come before bullets, bullets before bold."""
    counts: dict[str, int] = {}
    if items:
        outermost = min(item.indent for item in items)
        for item in items:
            counts[item.style] = counts.get(item.style, 0) + (item.indent <= outermost + 1)
    for style in ("numbered heading", "number"):
        if counts.get(style):
            return style
    headings = sorted(style for style, count in counts.items() if style.startswith(_HEADING) and count >= 3)
    return next((style for style in (*headings, "bullet", "bold") if counts.get(style)), "")


def _from_json(text: str) -> list[str]:
    """The strings of a JSON list, or of the first list in a JSON object."""
    body = re.sub(r"^\s*(?:```|~~~)\w*\n|\n(?:```|~~~)\s*$", "", text.strip())
    if not body.startswith(("[", "{")):
        return []
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        value = next((item for item in value.values() if isinstance(item, list)), [])
    rows = value if isinstance(value, list) else []
    return [
        row if isinstance(row, str) else ": ".join(str(value) for value in row.values() if value)
        for row in rows
        if isinstance(row, str | dict)
    ]
