"""The last step of a run: the best candidates are measured again, and only that is reported.

Knows which candidates are measured again, and which of them wins. Does not know how they are
measured. The fastest of hundreds of noisy measurements is partly the luckiest (the winner's curse).
"""

from collections.abc import Iterable, Mapping

from pike.core.events import Compared, Finished, Judged
from pike.core.step import Solution
from pike.core.verdict.evaluation import ON_SOME_VALUES, Effort, Evaluation, Status
from pike.engine.output.borrowed import still_borrowed
from pike.engine.run.judging import Judging
from pike.engine.state.journal_writer import JournalWriter


def ranking(solutions: Iterable[Solution], on_gpu: bool) -> list[Solution]:
    """Valid candidates, fastest first, each source once; equally fast ones in order of proposal."""

    def place(solution: Solution) -> tuple[float, int, str]:
        # By id, because the order of verdicts differs from run to run.
        id_ = solution.candidate.id
        return solution.slowness(on_gpu), len(id_), id_

    first: dict[str, Solution] = {}
    for solution in sorted(solutions, key=place):
        if solution.evaluation.valid:
            first.setdefault(solution.candidate.source, solution)
    return list(first.values())


def winner(finals: Mapping[str, Evaluation]) -> str | None:
    """The candidate with the highest re-measured speedup, None if none passed.

    One whose gain depends on the values of its inputs is ranked by its least gain.
    """

    def place(id_: str) -> float:
        timing = finals[id_].timing
        assert timing
        return timing.worst.speedup if timing.worst and ON_SOME_VALUES in finals[id_].labels else timing.speedup

    return max((id_ for id_, evaluation in finals.items() if evaluation.timing), key=place, default=None)


async def measure_again(writer: JournalWriter, judging: Judging, baselines: Mapping[str, str]) -> bool:
    """Measure the finalists again and close the run.

    The best `engine.finalists` (at least one) are measured together with the original, in the same
    sessions. One that does not pass stays a finalist, and the next best is measured too.
    Measurements from before a resume count.

    Args:
        writer: the journal.
        judging: the judges.
        baselines: names and sources of what is measured beside them, if there is time.

    Returns:
        True if the run is complete; False if the judges failed before any finalist was measured.
    """
    state = writer.state
    wanted = max(1, state.config.engine.finalists)
    waiting = {
        one.candidate.id: one
        for one in ranking(state.solutions.values(), state.device.is_cuda)
        if one.candidate.id not in state.finals
    }
    beside = {name: source for name, source in baselines.items() if name not in state.baselines}
    judges_failed = False
    while (missing := wanted - sum(evaluation.valid for evaluation in state.finals.values())) > 0:
        batch = {id_: waiting.pop(id_) for id_ in list(waiting)[:missing]}
        if not batch:
            break
        sources = {id_: solution.candidate.source for id_, solution in batch.items()}
        for name, evaluation in (await _measure(writer, judging, sources | beside)).items():
            if evaluation.status is Status.INFRA_ERROR:
                judges_failed = judges_failed or name in batch
                writer.board.note(f"{name}: could not be measured again: {evaluation.reason}")
            elif name in batch:
                again = still_borrowed(evaluation, batch[name].evaluation)
                writer.record(Judged(name, again, Effort.FINAL))
            else:
                writer.record(Compared(name, beside[name], evaluation))
        beside = {}
    best = winner(state.finals)
    if best is None and judges_failed:
        return False
    writer.record(Finished(best))
    return True


async def _measure(writer: JournalWriter, judging: Judging, sources: Mapping[str, str]) -> dict[str, Evaluation]:
    def show(stage: str) -> None:
        for name in sources:
            writer.board.judging(name, stage)

    try:
        return dict(zip(sources, await judging.final([*sources.values()], show), strict=True))
    finally:
        for name in sources:
            writer.board.drop(name)
