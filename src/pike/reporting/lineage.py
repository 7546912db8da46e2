"""Where a candidate came from: the chain of edits from the original model down to it.

Knows parents and changed lines. Does not know how they are shown (`page`).
"""

import difflib
import io
import tokenize
from dataclasses import dataclass
from functools import lru_cache

from pike.core.step import ORIGINAL
from pike.reporting.summary import ReportedCandidate, RunSummary


@dataclass(frozen=True, slots=True)
class Link:
    """One generation of a lineage.

    Attributes:
        entrant: the candidate.
        changed_lines: lines added plus lines removed since its parent, blank lines and comments not
            counted (paper, section on the distance between seed and child).
    """

    entrant: ReportedCandidate
    changed_lines: int


def lineage(summary: RunSummary, candidate_id: str) -> tuple[Link, ...]:
    """The links from the original down to `candidate_id`, oldest first; empty for an unknown id."""
    links: list[Link] = []
    seen: set[str] = set()
    current = summary.entrant(candidate_id)
    while current is not None and current.candidate.id not in seen:
        seen.add(current.candidate.id)
        links.append(_link(summary, current))
        current = summary.entrant(current.derived_from)
    return tuple(reversed(links))


def _link(summary: RunSummary, entrant: ReportedCandidate) -> Link:
    parent_id = entrant.derived_from
    parent = summary.entrant(parent_id)
    before = summary.task.source if parent_id == ORIGINAL else parent.candidate.source if parent else ""
    return Link(entrant, changed_lines(before, entrant.candidate.source))


@lru_cache(maxsize=512)
def changed_lines(before: str, after: str) -> int:
    """Lines added plus lines removed between two Python texts, without blank lines and comments."""
    matcher = difflib.SequenceMatcher(None, code_lines(before), code_lines(after), autojunk=False)
    blocks = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    return sum((a_end - a_start) + (b_end - b_start) for _, a_start, a_end, b_start, b_end in blocks)


@lru_cache(maxsize=4)
def tokens_of(text: str) -> tuple[tokenize.TokenInfo, ...] | None:
    """The tokens of a Python text, None where it is not Python; kept for whoever asks next."""
    try:
        return tuple(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return None


@lru_cache(maxsize=512)
def code_lines(text: str) -> tuple[str, ...]:
    """The lines of a Python text without comments and blank lines.

    A text that is not Python loses only its blank lines.
    """
    lines = text.splitlines()
    for token in tokens_of(text) or ():
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return tuple(line.rstrip() for line in lines if line.strip())
