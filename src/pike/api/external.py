"""The verbs of a run that is answered from outside: ask, tell and finish.

Knows what an answer may be given as, and keeps judges warm between moves (`ExternalRuns`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pike.api.options import Options, compose_config
from pike.api.outputs import report
from pike.api.runs import Optimized, task_in
from pike.api.waiting import run_to_end
from pike.core.errors import UserError
from pike.core.events import RunStarted
from pike.core.query import Answer
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.engine import Executor, LentExecutor, LocalExecutor, Observer, RunResult, Wiring, start
from pike.engine.external import batch, external_run
from pike.engine.external.answers import ANSWER_BYTES as ANSWER_BYTES
from pike.engine.external.answers import answer_from as answer_from
from pike.engine.external.answers import as_answer as as_answer
from pike.engine.external.answers import read_answer as read_answer
from pike.engine.external.batch import Told
from pike.engine.external.bundle import is_verdicts as is_verdicts
from pike.engine.external.elsewhere import PackedRuns, tell_verdicts
from pike.engine.external.status import ExternalStatus as ExternalStatus
from pike.engine.external.status import MoveReply as MoveReply
from pike.engine.external.status import Question as Question
from pike.engine.output.originals import OriginalModel
from pike.engine.output.originals import load as load_original
from pike.engine.tools import catalogue

T = TypeVar("T")


def ask(folder: str | Path, *, step: int | None = None) -> Question:
    """Get the prompt that waits for an answer; where none waits, the next step is asked.

    >>> begun = pike.optimize(model, example, strategy="agent", query_budget=2, out="runs/mine")
    >>> question = pike.ask("runs/mine")
    >>> "class ModelNew" in question.prompt
    True

    Args:
        folder: a run whose models are `by-hand`, for example one of the strategy `agent`.
        step: one of several steps that wait, None for the oldest.

    Raises:
        UserError: the run is finished or not answered from outside, or the step does not wait.
        BoundaryError: as for `resume`.
    """
    return run_to_end(external_run.ask(Path(folder).resolve(), step=step))


def tell(
    folder: str | Path,
    answer: Answer | str | Path,
    *,
    step: int | None = None,
    profile: bool = False,
    observer: Observer | None = None,
) -> MoveReply:
    """Answer a prompt, have the candidate in the answer judged at once, and get the verdict.

    >>> reply = pike.tell("runs/mine", "I have no idea.", step=question.step.id)
    >>> reply.solution.evaluation.reason
    'the answer holds no code'

    Args:
        folder: a run whose models are `by-hand`.
        answer: the text of the answer, a `Path` to a candidate file (`.py`) or to a text, or an
            `Answer` with its author and cost.
        step: the answered step; None for the only one that waits, or the next one of `agent`.
        profile: also say where the time of a valid candidate goes.
        observer: called with a `Progress` whenever something changed.

    Raises:
        UserError: the answer cannot be used, the run is finished, in use or not answered from
            outside, or several steps wait.
        BoundaryError: as for `resume`.
    """
    if not isinstance(answer, Answer):
        answer = Answer(answer) if isinstance(answer, str) else read_answer(answer)
    wiring = Wiring(observer=observer)
    reply = run_to_end(external_run.tell(Path(folder).resolve(), answer, wiring, step=step, profile=profile))
    report(folder)
    return reply


def ask_all(folder: str | Path, out: str | Path) -> dict[str, tuple[Question, ...]]:
    """Write every prompt that may be in flight into a folder, one file for each step.

    >>> asked = pike.api.external.ask_all("runs/mine", "prompts")  # doctest: +SKIP

    Args:
        folder: a run as for `ask`, or a campaign with such runs.
        out: where `step-N.prompt.md` goes; in a campaign, below a folder of the run's name.

    Returns:
        The prompts by the name of their run, which is empty for a single run.

    Raises:
        UserError: as for `ask`, or a file cannot be written.
        BoundaryError: as for `resume`.
    """
    asked = run_to_end(batch.ask_runs(Path(folder).resolve()))
    batch.write_prompts(Path(out), asked)
    return asked


def tell_all(folder: str | Path, answers: str | Path, *, author: str = "", observer: Observer | None = None) -> Told:
    """Answer many prompts with a folder of files and have their candidates judged side by side.

    It may be repeated: a step that was answered before is not answered again.

    Args:
        folder: a run as for `tell`, or a campaign with such runs.
        answers: where `step-N.py` (a candidate file) or `step-N.md` or `.txt` (a model's answer)
            lies; in a campaign, below a folder of the run's name.
        author: who wrote them.
        observer: called with a `Progress` whenever something changed.

    Returns:
        What became of each file, by the name of its run.

    Raises:
        UserError: a file's name names no step, or as for `tell`.
        BoundaryError: as for `resume`.
    """
    folder = Path(folder).resolve()
    told = run_to_end(batch.tell_runs(folder, Path(answers), Wiring(observer=observer), author))
    for name in told:
        report(batch.runs_of(folder)[name])
    return told


def bundle(folder: str | Path, out: str | Path, *, answers: str | Path | None = None, author: str = "") -> PackedRuns:
    """Pack the candidates that wait for a verdict into one file, for `pike judge` on another machine.

    The run then waits for verdicts of another machine: moves go on, and nothing is judged here.

    >>> packed = pike.api.external.bundle("runs/mine", "mine.bundle")  # doctest: +SKIP

    Args:
        folder: a run as for `tell`, or a campaign with such runs.
        out: the file that is written.
        answers: a folder of answers as for `tell_all`; they are taken first, and judged elsewhere.
        author: who wrote them.

    Raises:
        UserError: nothing waits for a verdict, or as for `tell_all`.
        BoundaryError: as for `resume`.
    """
    folder, given = Path(folder).resolve(), Path(answers) if answers else None
    return run_to_end(batch.bundle_runs(folder, given, Path(out), Wiring(), author))


def tell_judged(
    folder: str | Path, verdicts: str | Path, *, observer: Observer | None = None
) -> dict[str, tuple[MoveReply, ...]]:
    """Take the verdicts of another machine and carry the runs on; nothing is judged here.

    >>> told = pike.api.external.tell_judged("runs/mine", "mine.verdicts.jsonl")  # doctest: +SKIP

    Args:
        folder: the run or campaign whose candidates were bundled.
        verdicts: what `pike judge` wrote.
        observer: called with a `Progress` whenever something changed.

    Returns:
        What became of each step with a verdict, by the name of its run.

    Raises:
        UserError: the file cannot be used, or holds a verdict for something else.
        BoundaryError: as for `resume`.
    """
    runs = batch.runs_of(Path(folder).resolve())
    told = run_to_end(tell_verdicts(runs, Path(verdicts), Wiring(observer=observer)))
    for name in told:
        report(runs[name])
    return told


def finish(folder: str | Path, *, observer: Observer | None = None) -> Optimized:
    """End a run that is answered from outside: its best candidates are measured again.

    >>> pike.finish("runs/mine").result.stopped
    'exhausted'

    Args:
        folder: a run whose models are `by-hand`, with some of its budget left.
        observer: called with a `Progress` whenever something changed.

    Raises:
        UserError: the run is finished already or not answered from outside.
        BoundaryError: as for `resume`.
    """
    result = run_to_end(external_run.finish(Path(folder).resolve(), Wiring(observer=observer)))
    report(folder)
    return Optimized(result, task_in(folder))


def status(folder: str | Path) -> ExternalStatus:
    """Say where a run stands, without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return external_run.status(Path(folder).resolve())


def brief(folder: str | Path) -> str:
    """Say what the author of a candidate must know: model, device, rules, what counts as correct.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return external_run.brief(Path(folder).resolve())


def check_terms(options: Options) -> None:
    """Refuse terms on which no run could begin.

    Raises:
        UserError: an option, a setting or the strategy cannot be used.
    """
    catalogue.resolve(compose_config("", options).strategy)


class ExternalRuns:
    """Makes the moves of external runs one after the other; judges stay warm between them.

    A move that was begun is carried to its end, even if its caller goes away.

    Args:
        executor: judges the candidates, None for one judge on this machine, started when needed.
        load: loads the original model of a task; None where nothing needs it.
    """

    def __init__(
        self, executor: Executor | None = None, load: Callable[[Task], OriginalModel] | None = load_original
    ) -> None:
        self._executor = executor or LocalExecutor(EngineConfig(judges=1))
        self._wiring = Wiring(self._executor, load=cache(load) if load else None, handle_signals=False)
        self._one_move = asyncio.Lock()
        self._moves: set[asyncio.Task[Any]] = set()
        self._begun: dict[Path, RunStarted] = {}

    async def begin(self, task: Task, folder: Path, options: Options) -> ExternalStatus:
        """Begin a run; it then waits for an answer.

        Raises:
            UserError: an option or the folder cannot be used.
            BoundaryError: as for `pike.optimize`.
        """
        config = compose_config(task.id, options)
        wiring = replace(self._wiring, executor=LentExecutor(self._executor))
        await self._move(start(task, config, folder.resolve(), wiring))
        self._begun[folder.resolve()] = external_run.begun(folder)
        return external_run.status(folder)

    async def ask(self, folder: Path, step: int | None = None) -> Question:
        """As the function `ask`."""
        return await self._move(external_run.ask(folder, self._wiring, step), folder)

    async def tell(
        self,
        folder: Path,
        answer: Answer,
        *,
        step: int | None = None,
        profile: bool = False,
        observer: Observer | None = None,
    ) -> MoveReply:
        """As the function `tell`."""
        wiring = replace(self._wiring, observer=observer)
        reply = await self._move(external_run.tell(folder, answer, wiring, step=step, profile=profile), folder)
        await asyncio.to_thread(report, folder)
        return reply

    async def finish(self, folder: Path) -> RunResult:
        """As the function `finish`."""
        result = await self._move(external_run.finish(folder, self._wiring), folder)
        await asyncio.to_thread(report, folder)
        return result

    async def aclose(self) -> None:
        """Carry the moves that were begun to their end and stop the judges."""
        await asyncio.gather(*self._moves, return_exceptions=True)
        await self._executor.aclose()

    async def _move(self, work: Coroutine[Any, Any, T], folder: Path | None = None) -> T:
        """Do the work in turn, unless the journal in `folder` names other terms than at first sight."""
        begun = external_run.begun(folder) if folder else None
        if folder and begun and self._begun.setdefault(folder.resolve(), begun) != begun:
            work.close()
            raise UserError(
                f"The journal of the run in {folder} was edited: its task or its terms are not those that it began "
                "with, so no verdict is given; begin a new run"
            )

        async def in_turn() -> T:
            async with self._one_move:
                return await work

        move = asyncio.create_task(in_turn())
        self._moves.add(move)
        move.add_done_callback(self._moves.discard)
        return await asyncio.shield(move)
