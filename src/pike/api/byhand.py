"""The verbs of a run that is answered from outside: ask, tell, finish, and where it stands.

Knows what an answer may be given as, and keeps judges warm for whoever makes several moves (`Desk`). Does not know how
a move is made (`engine.byhand`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pike.api.options import Options, compose_config
from pike.api.targets import task_of, words_for
from pike.api.verbs import Optimized, report, run_to_end, task_in
from pike.core.config import EngineConfig
from pike.core.errors import UserError
from pike.core.query import Answer
from pike.core.task import Task
from pike.engine import Executor, LentExecutor, LocalExecutor, Observer, RunResult, Wiring, byhand, catalogue, start
from pike.engine.answering import ANSWER_BYTES, as_answer
from pike.engine.originals import Original
from pike.engine.originals import load as load_original
from pike.engine.standing import Question, Reply, Standing

T = TypeVar("T")

__all__ = [
    "ANSWER_BYTES",
    "Desk",
    "Question",
    "Reply",
    "Standing",
    "answer_from",
    "as_answer",
    "ask",
    "brief",
    "check_terms",
    "finish",
    "standing",
    "tell",
]


def ask(folder: str | Path, *, step: int | None = None) -> Question:
    """The prompt that waits for an answer; where none waits, the next step is asked.

    Args:
        folder: a run whose models are `by-hand`.
        step: one of several steps that wait, None for the oldest.

    Raises:
        UserError: the run is finished or not answered by hand, or the step does not wait.
        BoundaryError: as for `pike.resume`.
    """
    return run_to_end(byhand.ask(Path(folder).resolve(), step=step))


def tell(
    folder: str | Path,
    answer: Answer,
    *,
    step: int | None = None,
    profile: bool = False,
    observer: Observer | None = None,
) -> Reply:
    """Take an answer, have what it holds judged at once, and say what became of it.

    Args:
        folder: a run whose models are `by-hand`.
        answer: what was answered (`as_answer`, `answer_from`), with what it cost where that is known.
        step: the step that it answers, None for the only one that waits or the next of a run by `agent`.
        profile: also say where the time of a valid candidate goes.
        observer: called with a `Progress` whenever something changed.

    Raises:
        UserError: the answer cannot be used, the run is finished, in use or not answered by hand, or it is not clear
            which step is answered.
        BoundaryError: as for `pike.resume`.
    """
    wiring = Wiring(observer=observer)
    reply = run_to_end(byhand.tell(Path(folder).resolve(), answer, wiring, step=step, profile=profile))
    report(folder)
    return reply


def finish(folder: str | Path, *, observer: Observer | None = None) -> Optimized:
    """End a run by hand before its budget is spent: its best candidates are measured again.

    Raises:
        UserError: the run is finished already or not answered by hand.
        BoundaryError: as for `pike.resume`.
    """
    result = run_to_end(byhand.finish(Path(folder).resolve(), Wiring(observer=observer)))
    report(folder)
    return Optimized(result, task_in(Path(folder)))


def standing(folder: str | Path) -> Standing:
    """Where a run stands, without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return byhand.standing(Path(folder).resolve())


def brief(folder: str | Path) -> str:
    """What there is to know before a candidate of a run is written: model, device, rules, what counts as correct.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return byhand.brief(Path(folder).resolve())


def check_terms(options: Options) -> None:
    """Refuse terms on which no run could begin.

    Raises:
        UserError: an option, a setting or the strategy cannot be used.
    """
    catalogue.check(compose_config("", options).strategy)


def answer_from(data: bytes, what: str, *, is_file: bool) -> Answer:
    """An answer as it was read from a file or a pipe.

    Args:
        data: its bytes.
        what: where they come from, for messages.
        is_file: they are a candidate file, not a model's answer that may hold one.

    Raises:
        UserError: it is too long or no text.
    """
    if len(data) > ANSWER_BYTES:
        raise UserError(f"{what} has {len(data):,} bytes, and at most {ANSWER_BYTES:,} are taken: give only the file")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{what} is no text (byte {error.start:,}): give a Python file in UTF-8") from None
    return as_answer(text) if is_file else Answer(text)


class Desk:
    """Where the moves of runs by hand are made one after the other, with judges that stay warm between them.

    A move that was begun is carried to its end, whatever becomes of whoever asked for it.

    Args:
        executor: who judges, None for one judge on this machine, started when first needed.
        load: loads the original model of a task; None where nothing needs it.
    """

    def __init__(
        self, executor: Executor | None = None, load: Callable[[Task], Original] | None = load_original
    ) -> None:
        self._executor = executor or LocalExecutor(EngineConfig(judges=1))
        self._originals: dict[Task, Original] = {}
        self._wiring = Wiring(self._executor, load=self._loaded if load else None, handle_signals=False)
        self._load = load
        self._one_move = asyncio.Lock()
        self._moves: set[asyncio.Task[Any]] = set()

    async def begin(self, target: str | Task, folder: Path, **options: Unpack[Options]) -> Standing:
        """Begin a run; it then waits for an answer.

        Raises:
            UserError: the target, an option or the folder cannot be used.
            BoundaryError: as for `pike.optimize`.
        """
        config = compose_config(words_for(target), options)
        task = task_of(target, None, folder.resolve())
        wiring = replace(self._wiring, executor=LentExecutor(self._executor))
        await self._move(start(task, config, folder.resolve(), wiring))
        return byhand.standing(folder)

    async def ask(self, folder: Path, step: int | None = None) -> Question:
        """As the function `ask`."""
        return await self._move(byhand.ask(folder, self._wiring, step))

    async def tell(
        self,
        folder: Path,
        answer: Answer,
        *,
        step: int | None = None,
        profile: bool = False,
        observer: Observer | None = None,
    ) -> Reply:
        """As the function `tell`."""
        wiring = replace(self._wiring, observer=observer)
        reply = await self._move(byhand.tell(folder, answer, wiring, step=step, profile=profile))
        await asyncio.to_thread(report, folder)
        return reply

    async def finish(self, folder: Path) -> RunResult:
        """As the function `finish`."""
        result = await self._move(byhand.finish(folder, self._wiring))
        await asyncio.to_thread(report, folder)
        return result

    async def aclose(self) -> None:
        """Carry the moves that were begun to their end and stop the judges."""
        await asyncio.gather(*self._moves, return_exceptions=True)
        await self._executor.aclose()

    async def _move(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_turn() -> T:
            async with self._one_move:
                return await work

        move = asyncio.create_task(in_turn())
        self._moves.add(move)
        move.add_done_callback(self._moves.discard)
        return await asyncio.shield(move)

    def _loaded(self, task: Task) -> Original:
        if task not in self._originals and self._load is not None:
            self._originals[task] = self._load(task)
        return self._originals[task]
