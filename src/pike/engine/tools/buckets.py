"""Other batch sizes: the winner of a run is judged again for each, in a run of one candidate.

Knows how the winner is written for another task (recipes anew, a model's file as it is), and where
these runs lie. Does not know how inputs become those of another batch, and pads none.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core import figures
from pike.core.agent import Context, Proposal
from pike.core.errors import PikeError
from pike.core.settings.budget import Budget
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.step import Candidate, Role
from pike.core.task import Task
from pike.engine.output import originals
from pike.engine.output.result import BEST, RunResult
from pike.engine.run.run import start
from pike.engine.run.wiring import Wiring

_FOLDER = "batch-"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A batch size for which the winner was judged again.

    Attributes:
        batch: the length of its inputs' first axis.
        folder: its run, None where there was none.
        speedup: of the winner there; None where the original answers.
        why: why the original answers, else empty.
    """

    batch: int
    folder: Path | None
    speedup: float | None = None
    why: str = ""


async def judge_buckets(
    result: RunResult, config: RunConfig, tasks: Mapping[int, Callable[[Path], Task]], wiring: Wiring | None = None
) -> tuple[Bucket, ...]:
    """Judge the winner of a run at other batch sizes, one after the other.

    Args:
        result: the run's; without a winner, the original stays for all sizes.
        config: the terms of the run.
        tasks: makes the problem at each batch size, with its files in a folder.
        wiring: the parts of these runs; the winner is their only agent.
    """
    agents = dict.fromkeys(Role, _Winner(result.best)) if result.best else {}
    wiring, found = replace(wiring or Wiring(), agents=agents), []
    engine = replace(config.engine, finalists=1, max_hours=None)
    config = replace(config, strategy=StrategyConfig(), llm=LlmConfig(), budget=Budget(1), engine=engine)
    for size, make in tasks.items():
        if not result.improved:
            found.append(Bucket(size, None, why=_why_no_winner(result)))
            continue
        folder = Path(result.folder) / f"{_FOLDER}{size}"
        try:
            task = make(folder)
            again = await start(task, replace(config, task=task.name), folder, wiring)
            why = "" if again.improved else _why_not(again)
            found.append(Bucket(size, folder, None if why else again.speedup, why))
        except PikeError as error:  # one size must not cost the user the others
            found.append(Bucket(size, folder if folder.exists() else None, why=str(error)))
    return tuple(found)


def _why_no_winner(result: RunResult) -> str:
    if result.candidates:
        return "the search found nothing faster"
    if result.stopped == "hours":
        return "the search tried nothing before its time ran out: give a larger max_minutes"
    return f"the search tried nothing before it ended ({result.stopped})"


def _why_not(result: RunResult) -> str:
    timing = result.evaluation.timing if result.evaluation else None
    if timing is not None:
        measured = f"{figures.times(timing.speedup)}, {figures.interval(timing.speedup_ci95)}"
        return f"the winner is not certainly faster there: {measured}"
    statuses = ", ".join(status.value for status, _ in result.counts)
    return f"{'; '.join(result.notes)} ({statuses or 'its recipes do not apply there'})"


def best_files(folder: Path) -> list[Path]:
    """The best files of a run's buckets, in order of their batch."""
    found = folder.glob(f"{_FOLDER}*/{BEST}")
    return sorted(found, key=lambda path: int(path.parent.name.removeprefix(_FOLDER)))


class _Winner:
    """Answers every step with the winner of another run."""

    def __init__(self, winner: Candidate) -> None:
        self._winner = winner

    async def act(self, context: Context) -> Proposal:
        """The winner, for the task at hand."""
        if context.step.role is Role.BRAINSTORM:
            return Proposal(ideas=(self._winner.note or self._winner.id,), author=self._winner.author)
        return await asyncio.to_thread(self._written, context)

    def _written(self, context: Context) -> Proposal:
        winner = self._winner
        if not winner.recipes:
            return Proposal(source=winner.source, author=winner.author, note=winner.note)
        from pike.recipes import compose
        from pike.recipes.search.explored import problem_of

        reference = originals.load(context.task).reference
        return compose(context.task, problem_of(reference, context.device, context.options), winner.recipes)
