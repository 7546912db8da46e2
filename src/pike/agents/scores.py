"""What the files in a prompt reached, as a table.

Knows times, speed and score of solutions. Does not know templates, nor how a search chose what is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pike.core.step import Solution

_HEAD = ("| file | ms per call | times as fast | score |", "|---|---|---|---|")


def score_table(inspirations: Sequence[Solution], seed: Solution | None, reference_ms: float | None) -> str:
    """A Markdown table: the original where its time is known, the seed, and the other solutions by their number.

    The score is what an evolutionary search ranks by: calls per second.
    """
    rows = [] if reference_ms is None else [_row("the original model", reference_ms, 1.0)]
    rows += [_solved("the solution to improve", seed)] if seed else []
    rows += [_solved(f"solution {number}", other) for number, other in enumerate(inspirations, 1)]
    return "\n".join((*_HEAD, *rows))


def _solved(name: str, solution: Solution) -> str:
    timing = solution.evaluation.timing
    if timing is None:
        return f"| {name} | refused: {solution.evaluation.status.value} | – | – |"
    return _row(name, timing.candidate_ms, timing.speedup)


def _row(name: str, ms: float, speedup: float) -> str:
    return f"| {name} | {ms:.4g} | {speedup:.2f} | {1000.0 / ms:.4g} |"
