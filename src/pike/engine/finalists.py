"""The last step of a run: the best candidates are measured again, and only that is reported.

Knows which candidates are worth measuring again and which of them wins. Does not know how they are measured. The
fastest of hundreds of noisy measurements is partly the luckiest (the winner's curse), so the numbers of the search
only choose who is measured again, thoroughly and on fresh data; they are never the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pike.core.evaluation import Effort, Evaluation, Status
from pike.core.events import Finished, Judged
from pike.core.step import Solution
from pike.engine.judging import Judging
from pike.engine.progress import Activity
from pike.engine.scribe import Scribe


def ranking(solutions: Iterable[Solution]) -> list[Solution]:
    """Valid candidates, fastest first, each source once; of equally fast ones, the one proposed first."""

    def place(solution: Solution) -> tuple[float, int, str]:
        # By id and not by order of verdicts, which is another one in every run.
        id_ = solution.candidate.id
        return -(solution.evaluation.speedup or 0.0), len(id_), id_

    first: dict[str, Solution] = {}
    for solution in sorted(solutions, key=place):
        if solution.evaluation.valid:
            first.setdefault(solution.candidate.source, solution)
    return list(first.values())


def winner(finals: Mapping[str, Evaluation]) -> str | None:
    """The candidate with the highest re-measured speedup, None if none passed."""
    passed = {id_: evaluation.speedup for id_, evaluation in finals.items() if evaluation.speedup is not None}
    return max(passed, key=passed.__getitem__, default=None)


async def measure_again(scribe: Scribe, judging: Judging) -> bool:
    """Measure the finalists again and close the run.

    The best `engine.finalists` (at least one) are measured; where one does not pass, it is kept as a finalist
    that failed and the next best takes its place. What was measured before a resume counts.

    Returns:
        True if the run is complete; False if no finalist could be measured because the judges failed, so that
        nothing can be said.
    """
    memory = scribe.memory
    wanted = max(1, memory.config.engine.finalists)
    judges_failed = False
    for solution in ranking(memory.solutions.values()):
        if sum(evaluation.valid for evaluation in memory.finals.values()) >= wanted:
            break
        id_ = solution.candidate.id
        if id_ in memory.finals:
            continue
        evaluation = await _measure(scribe, judging, solution)
        if evaluation.status is Status.INFRA_ERROR:
            judges_failed = True
            scribe.board.note(f"{id_}: could not be measured again: {evaluation.reason}")
            continue
        scribe.record(Judged(id_, evaluation, Effort.FINAL))
    best = winner(memory.finals)
    if best is None and judges_failed:
        return False
    scribe.record(Finished(best))
    return True


async def _measure(scribe: Scribe, judging: Judging, solution: Solution) -> Evaluation:
    id_ = solution.candidate.id

    def show(stage: str) -> None:
        scribe.board.set(Activity(id_, None, 0, 0, 0, stage))

    try:
        verdict = await judging.final(solution.candidate.source, show)
        if verdict.status is Status.UNTRUSTED_TIMING:
            # A machine that was busy for a moment looks like this too, and a finalist has passed before.
            verdict = await judging.final(solution.candidate.source, show)
        return verdict
    finally:
        scribe.board.drop(id_)
