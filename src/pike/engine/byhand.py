"""A run answered from outside, one move a process: ask for the next prompt, tell an answer, end it.

Knows the order of a move. Does not know which answers are taken (`answering`), what is said at the end (`standing`) or
who moves: a person at a terminal, a coding agent with files, or a server (ADR 0010). Each move opens the run's journal,
carries the run on as far as it goes without anybody outside, and closes it. Between moves nothing runs and nothing is
locked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from pike import store
from pike.core.agent import Context
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.query import Answer
from pike.core.step import Role, Step
from pike.engine import outputs
from pike.engine.answering import answered_step, check, known_solution, taken_by, waiting_step
from pike.engine.executors import LentExecutor, LocalExecutor
from pike.engine.hand import Hand, hand_roles, waiting
from pike.engine.memory import Memory
from pike.engine.models import model_names
from pike.engine.result import RunResult
from pike.engine.run import Wiring, resume_run
from pike.engine.standing import Question, Reply, Standing, known_reply, reply_of, standing_of
from pike.store.schema import FILE_NAME


def is_run(folder: Path) -> bool:
    """Whether `folder` holds a run."""
    return (folder / FILE_NAME).is_file()


def standing(folder: Path) -> Standing:
    """Where a run stands, without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return standing_of(_remembered(folder), folder)


def brief(folder: Path) -> str:
    """What there is to know before a candidate is written: the prompt of a step that starts from the original.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    from pike.agents import query_for

    memory = _remembered(folder)
    step = Step(0, Role.OPTIMISE, queries=0)
    known = Context(memory.task, step, memory.device, memory.config.evaluate, memory.reference_ms)
    return query_for(known).prompt


async def ask(folder: Path, wiring: Wiring | None = None, step: int | None = None) -> Question:
    """The prompt of the step that waits longest, or of a given one; where none waits, the next step is asked.

    Raises:
        UserError: the run is finished or not answered by hand, or the step does not wait.
        BoundaryError: as for `resume_run`.
    """
    memory = _by_hand(folder)
    if not waiting(memory):
        async with _lent(wiring, memory, known=memory.device) as lent:
            await resume_run(folder, replace(lent, hand=Hand(asks=True)))
        memory = _by_hand(folder)
    from pike.agents import query_for

    found = waiting_step(memory, folder, step)
    query = query_for(memory.context(found))
    return Question(found, query.system, query.prompt, standing_of(memory, folder))


async def tell(
    folder: Path, answer: Answer, wiring: Wiring | None = None, *, step: int | None = None, profile: bool = False
) -> Reply:
    """Take an answer and carry the run on: what it holds is judged at once.

    Args:
        folder: the run.
        answer: what was answered; its `parent` names the candidate that it continues.
        wiring: exchangeable parts; an executor given here stays open.
        step: the step that it answers; None for the only one that waits, or for the next one of a free-form run.
        profile: have it profiled if it is valid.

    Raises:
        UserError: the answer cannot be used, the run is finished or not answered by hand, another process works on
            it, or it is not clear which step is answered; nothing was written then.
        BoundaryError: as for `resume_run`.
    """
    memory = _by_hand(folder)
    check(answer, memory)
    taken = taken_by(memory, answer, step)
    hand = Hand(taken=taken) if taken is not None else Hand(answer, answered_step(memory, folder, step))
    known = known_solution(memory, answer) if step is None else None
    if known is not None:
        return known_reply(memory, folder, known)
    async with _lent(wiring, memory, profile=profile) as lent:
        await resume_run(folder, replace(lent, hand=hand))
    entries = tuple(store.read(folder))
    memory = outputs.remember(entries, folder)
    if hand.taken is None:
        why = f"the run stopped: {memory.closing}" if memory.closing else "its step was answered meanwhile"
        raise UserError(f"The answer was not taken, because {why}; see where it stands with: pike ask {folder}")
    return reply_of(entries, memory, folder, hand.taken)


async def finish(folder: Path, wiring: Wiring | None = None) -> RunResult:
    """End a run before its budget is spent: its best candidates are measured again.

    Raises:
        UserError: the run is finished already or not answered by hand.
        BoundaryError: as for `resume_run`.
    """
    memory = _by_hand(folder)
    async with _lent(wiring, memory) as lent:
        return await resume_run(folder, replace(lent, hand=Hand(over="exhausted")))


@asynccontextmanager
async def _lent(
    wiring: Wiring | None, memory: Memory, *, known: DeviceFacts | None = None, profile: bool = False
) -> AsyncIterator[Wiring]:
    """The wiring of one move; where the device is `known`, no judge is started unless there is something to judge."""
    wiring = wiring or Wiring()
    owner = wiring.executor or LocalExecutor(memory.config.engine)
    try:
        yield replace(wiring, executor=LentExecutor(owner, known, profile))
    finally:
        if wiring.executor is None:
            await owner.aclose()


def _remembered(folder: Path) -> Memory:
    return outputs.remember(tuple(store.read(folder)), folder)


def _by_hand(folder: Path) -> Memory:
    """The state of a run that can take an answer.

    Raises:
        UserError: it cannot; the message says why and what to do.
    """
    memory = _remembered(folder)
    if not hand_roles(memory.config.llm):
        models = ", ".join(sorted({name for names in model_names(memory.config.llm).values() for name in names}))
        raise UserError(
            f"The run in {folder} is answered by {models}, not by hand: continue it with pike resume {folder}"
        )
    if memory.finished:
        spent = f"{memory.accounts.spend.queries} of {memory.config.budget.queries} queries are spent"
        raise UserError(f"The run in {folder} is finished ({memory.closing}; {spent}): see pike report {folder}")
    return memory
