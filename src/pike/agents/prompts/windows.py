"""Windows: the other candidates of a search that a role sees, within a bound.

Knows how much of each candidate is shown. Does not know which candidates to show: a strategy names
them, the most important first. The verdict and the plan of a candidate come before its code, and
code is left out first when the window is full.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from pike.agents.prompts.tracebacks import without_folders
from pike.agents.reading.plans import instructions
from pike.core.agent import Context
from pike.core.figures import plural
from pike.core.step import ORIGINAL, Solution
from pike.core.text.printable import printable
from pike.core.verdict.evaluation import Evaluation

MOST_NODES = 16
WINDOW_CHARACTERS = 60_000
"""Code of all candidates of one window, about 15,000 tokens."""
NODE_CHARACTERS = 16_000
"""Code of one candidate."""
TEXT_CHARACTERS = 1_500
"""A verdict's reason, or the instructions of one plan."""
_LEAST_CHARACTERS = 400
"""A shorter piece of a file is of no use."""


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """One candidate in a window.

    Attributes:
        solution: the candidate with its verdict.
        origin: the candidate it was made from, in words.
        verdict: the reason of its refusal, empty for a valid one.
        plan: the instructions of its plan, empty where there was none.
        code: its file or the beginning of it, empty where it is not shown.
        cut: a sentence on the part of its file that is not shown, else empty.
    """

    solution: Solution
    origin: str
    verdict: str
    plan: str
    code: str
    cut: str


@dataclass(frozen=True, slots=True)
class Window:
    """The other candidates that a role sees.

    Attributes:
        nodes: the candidates, in the strategy's order.
        left_out: a sentence on the candidates that are not shown, else empty.
    """

    nodes: tuple[WindowEntry, ...]
    left_out: str


def failures(context: Context) -> tuple[tuple[Solution, str, str], ...]:
    """What failed before: each candidate, its verdict, and in a chain what the next one changed."""
    later, found = context.failing, []
    for solution in context.failed:
        change = _change(solution.candidate.source, later.candidate.source) if later else ""
        found.append((solution, _verdict(solution), change))
        later = later and solution
    return tuple(found)


def window(context: Context) -> Window:
    """The inspirations of a step, without those that its prompt shows anyway."""
    seen = {solution.candidate.id for solution in (context.seed, context.failing) if solution}
    others: list[Solution] = []
    for solution in context.inspirations:
        if solution.candidate.id not in seen:
            seen.add(solution.candidate.id)
            others.append(solution)
    over = len(others) - MOST_NODES
    left_out = f"For want of room, {plural(over, 'more candidate')} of the search cannot be shown." if over > 0 else ""
    return Window(_shown(others[:MOST_NODES]), left_out)


def _shown(solutions: Sequence[Solution]) -> tuple[WindowEntry, ...]:
    room = WINDOW_CHARACTERS
    nodes = []
    for solution in solutions:
        parent = solution.candidate.parent
        code, cut = _cut(solution.candidate.source, min(room, NODE_CHARACTERS))
        room -= len(code)
        origin = "the original" if parent == ORIGINAL else parent
        plan = _short("\n\n".join(instructions(solution.candidate.plan)))
        nodes.append(WindowEntry(solution, origin, _verdict(solution), plan, code, cut))
    return tuple(nodes)


def _verdict(solution: Solution) -> str:
    evaluation = solution.evaluation
    if evaluation.valid:
        return ""
    return _short(verdict_text(evaluation))


def verdict_text(evaluation: Evaluation) -> str:
    """Status and reason of a refusal."""
    reason = without_folders(printable(evaluation.reason)) or "none given"
    return f"status: {evaluation.status.value}\nreason: {reason}"


def _change(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return _cut("\n".join(list(lines)[2:]) + "\n", TEXT_CHARACTERS * 2)[0]


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]} [cut]"


def _cut(source: str, limit: int) -> tuple[str, str]:
    """The beginning of a file in whole lines, and a sentence on the rest."""
    if len(source) <= limit:
        return source, ""
    lines = source.splitlines()
    if limit < _LEAST_CHARACTERS:
        return "", f"Its file of {plural(len(lines), 'line')} is left out for want of room."
    code = source[: source.rfind("\n", 0, limit) + 1] or source[:limit]
    return code, f"Cut for want of room: the first {len(code.splitlines())} of {plural(len(lines), 'line')}."
