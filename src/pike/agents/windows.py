"""Windows: what a role sees of the other candidates of a search, within a bound.

Knows how much of each candidate is shown and what is said of the rest. Does not know which candidates are worth
showing: a strategy names them, the most telling first. Of every one that is shown, how it did and what it was to do
come before its code; when the room is used up, code is left out first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pike.agents.fences import printable
from pike.agents.plans import instructions
from pike.core.agent import Context
from pike.core.figures import plural
from pike.core.step import ORIGINAL, Solution

MOST_NODES = 16
WINDOW_CHARACTERS = 60_000
"""Code of all candidates of one window, about 15,000 tokens."""
NODE_CHARACTERS = 16_000
"""Code of one candidate."""
TEXT_CHARACTERS = 1_500
"""A verdict's reason, or the instructions of one plan."""
_LEAST_CHARACTERS = 400
"""Less than this of a file tells nothing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One candidate in a window.

    Attributes:
        solution: it, with its verdict.
        origin: what it was made from, in words.
        verdict: why it was refused, empty for a valid one.
        plan: what its plan said, empty where there was none.
        code: its file, or the beginning of it; empty where none is shown.
        cut: what is not shown of its file, a sentence, else empty.
    """

    solution: Solution
    origin: str
    verdict: str
    plan: str
    code: str
    cut: str


@dataclass(frozen=True, slots=True)
class Window:
    """What a role sees of other candidates.

    Attributes:
        nodes: the candidates, in the strategy's order.
        left_out: a sentence on those that are not shown, else empty.
    """

    nodes: tuple[Shown, ...]
    left_out: str


def window(context: Context) -> Window:
    """The inspirations of a step that its prompt does not show anyway."""
    seen = {solution.candidate.id for solution in (context.seed, context.failing) if solution}
    others: list[Solution] = []
    for solution in context.inspirations:
        if solution.candidate.id not in seen:
            seen.add(solution.candidate.id)
            others.append(solution)
    over = len(others) - MOST_NODES
    left_out = f"For want of room, {plural(over, 'more candidate')} of the search cannot be shown." if over > 0 else ""
    return Window(_shown(others[:MOST_NODES]), left_out)


def _shown(solutions: Sequence[Solution]) -> tuple[Shown, ...]:
    room = WINDOW_CHARACTERS
    nodes = []
    for solution in solutions:
        parent = solution.candidate.parent
        code, cut = _cut(solution.candidate.source, min(room, NODE_CHARACTERS))
        room -= len(code)
        origin = "the original" if parent == ORIGINAL else parent
        nodes.append(Shown(solution, origin, _verdict(solution), _plan(solution), code, cut))
    return tuple(nodes)


def _verdict(solution: Solution) -> str:
    evaluation = solution.evaluation
    if evaluation.valid:
        return ""
    return _short(printable(f"status: {evaluation.status.value}\nreason: {evaluation.reason or 'none given'}"))


def _plan(solution: Solution) -> str:
    return _short("\n\n".join(instructions(solution.candidate.plan)))


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]} [cut]"


def _cut(source: str, limit: int) -> tuple[str, str]:
    """The beginning of a file in whole lines, and what is said of the rest."""
    if len(source) <= limit:
        return source, ""
    lines = source.splitlines()
    if limit < _LEAST_CHARACTERS:
        return "", f"Its file of {plural(len(lines), 'line')} is left out for want of room."
    code = source[: source.rfind("\n", 0, limit) + 1] or source[:limit]
    return code, f"Cut for want of room: the first {len(code.splitlines())} of {plural(len(lines), 'line')}."
