"""A run with external answers, one move per process: ask for a prompt, tell an answer, end the run.

Knows the order of a move (ADR 0010). Does not know which answers are taken (`answers`), what is
reported (`status`), or who moves.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pike import store
from pike.core.agent import Context
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import RunStarted
from pike.core.query import Answer
from pike.core.step import Role, Step
from pike.engine.executors.choice import executor_of
from pike.engine.executors.lent import LentExecutor
from pike.engine.external.answers import answered_step, check, known_solution, require_syntax, taken_by, waiting_step
from pike.engine.external.elsewhere import VerdictsElsewhere
from pike.engine.external.status import (
    ExternalStatus,
    MoveReply,
    Question,
    known_reply,
    other_answer,
    reply_of,
    status_of,
)
from pike.engine.output.result import RunResult
from pike.engine.run.external_answers import ExternalAnswers, external_roles, waiting
from pike.engine.run.loop import ELSEWHERE
from pike.engine.run.run import resume_run
from pike.engine.run.wiring import Wiring
from pike.engine.state.models import model_names
from pike.engine.state.resume import beginning, read_state, state_of
from pike.engine.state.run_state import RunState
from pike.store.schema import FILE_NAME


def is_run(folder: Path) -> bool:
    """Whether `folder` holds a run."""
    return (folder / FILE_NAME).is_file()


def begun(folder: Path) -> RunStarted:
    """What a run began with: its task and its terms.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return beginning(tuple(islice(store.read(folder), 1)), folder)


def status(folder: Path) -> ExternalStatus:
    """The status of a run, read without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    return status_of(read_state(folder), folder)


def brief(folder: Path) -> str:
    """The prompt of a step that starts from the original: all one must know to write a candidate.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    from pike.agents import query_for

    state = read_state(folder)
    step = Step(0, Role.OPTIMISE, queries=0)
    known = Context(state.task, step, state.device, state.config.evaluate, state.reference_ms)
    return query_for(known).prompt


async def ask(folder: Path, wiring: Wiring | None = None, step: int | None = None) -> Question:
    """The prompt of a given step, or of the one that waits longest, or of the next one.

    Raises:
        UserError: the run is finished or takes no external answers, or the step does not wait.
        BoundaryError: as for `resume_run`.
    """
    state = _open_run(folder)
    if not waiting(state):
        async with _lent(wiring, state, known=state.device) as lent:
            await resume_run(folder, replace(lent, external=ExternalAnswers(prompts=1)))
        state = _open_run(folder)
    return _question(state, waiting_step(state, folder, step), status_of(state, folder))


async def ask_all(folder: Path, wiring: Wiring | None = None) -> tuple[Question, ...]:
    """The prompts of all steps that may be in flight, the oldest first.

    Raises:
        UserError: the run is finished or takes no external answers.
        BoundaryError: as for `resume_run`.
    """
    state = _open_run(folder)
    async with _lent(wiring, state, known=state.device) as lent:
        wanted = ExternalAnswers(prompts=state.config.engine.concurrency)
        await resume_run(folder, replace(lent, external=wanted))
    state = read_state(folder)
    status = status_of(state, folder)
    return tuple(_question(state, step, status) for step in status.waiting)


def _question(state: RunState, step: Step, status: ExternalStatus) -> Question:
    from pike.agents import query_for

    query = query_for(state.context(step))
    return Question(step, query.system, query.prompt, status)


async def tell(
    folder: Path, answer: Answer, wiring: Wiring | None = None, *, step: int | None = None, profile: bool = False
) -> MoveReply:
    """Take an answer and carry the run on: its candidate is judged at once.

    Args:
        folder: the run.
        answer: the answer; its `parent` names the candidate that it continues.
        wiring: exchangeable parts; an executor given here stays open.
        step: the step that it answers; None for the only one that waits, or the next of a
            free-form run.
        profile: profile the candidate if it is valid.

    Raises:
        UserError: the answer cannot be used, the run is finished, in use or takes no external
            answers, or it is not clear which step is answered. Nothing was written then.
        BoundaryError: as for `resume_run`.
    """
    state = _open_run(folder)
    check(answer, state)
    taken = taken_by(state, answer, step)
    if taken is None:
        require_syntax(answer, state)
    external = (
        ExternalAnswers(taken={taken})
        if taken is not None
        else ExternalAnswers({answered_step(state, folder, step): answer})
    )
    known = known_solution(state, answer) if step is None else None
    if known is not None:
        return known_reply(state, folder, known)
    async with _lent(wiring, state, profile=profile) as lent:
        await resume_run(folder, replace(lent, external=external))
    entries = tuple(store.read(folder))
    state = state_of(entries, folder)
    if not external.taken:
        why = f"the run stopped: {state.closing}" if state.closing else "its step was answered meanwhile"
        raise UserError(f"The answer was not taken, because {why}; see where it stands with: pike ask {folder}")
    return reply_of(entries, state, folder, *external.taken)


async def tell_all(folder: Path, answers: Mapping[int, Answer], wiring: Wiring | None = None) -> tuple[MoveReply, ...]:
    """Take the answers to several steps; their candidates are judged side by side.

    An answer to a step that was answered before is not taken again. So after a crash the same
    answers can be told once more.

    Args:
        folder: the run.
        answers: by step.
        wiring: as for `tell`.

    Returns:
        The replies in the order of `answers`; `known` says that the step had its answer before.

    Raises:
        UserError: an answer cannot be used or its step never waited for one, or the run is
            finished, in use or takes no external answers. Nothing was written then.
        BoundaryError: as for `resume_run`.
    """
    state = read_state(folder)
    earlier = dict(state.answers)
    for step, answer in answers.items():
        check(answer, state)
        if step not in earlier:
            waiting_step(_open_run(folder), folder, step)
    if any(step not in earlier or not state.steps[step].told for step in answers):
        async with _lent(wiring, _open_run(folder)) as lent:
            given: dict[int | None, Answer] = {step: one for step, one in answers.items() if step not in earlier}
            await resume_run(folder, replace(lent, external=ExternalAnswers(given)))
    entries = tuple(store.read(folder))
    state = state_of(entries, folder)
    return tuple(
        replace(reply_of(entries, state, folder, step), known=step in earlier)
        if earlier.get(step, one).text == one.text
        else other_answer(state, folder, step)
        for step, one in answers.items()
    )


async def finish(folder: Path, wiring: Wiring | None = None) -> RunResult:
    """End a run before its budget is spent: its best candidates are measured again.

    Raises:
        UserError: the run is finished already or takes no external answers.
        BoundaryError: as for `resume_run`.
    """
    state = _open_run(folder)
    async with _lent(wiring, state) as lent:
        return await resume_run(folder, replace(lent, external=ExternalAnswers(over="exhausted")))


@asynccontextmanager
async def _lent(
    wiring: Wiring | None, state: RunState, *, known: DeviceFacts | None = None, profile: bool = False
) -> AsyncIterator[Wiring]:
    """The wiring of one move; with a `known` device, a judge starts only when a candidate comes.

    A run that waits for verdicts of another machine goes on waiting.
    """
    wiring = wiring or Wiring()
    if state.stopped == ELSEWHERE and not isinstance(wiring.executor, VerdictsElsewhere):
        wiring = replace(wiring, executor=VerdictsElsewhere(state.device))
    owner = wiring.executor or executor_of(state.config.engine)
    try:
        yield replace(wiring, executor=LentExecutor(owner, known, profile))
    finally:
        if wiring.executor is None:
            await owner.aclose()


def _open_run(folder: Path) -> RunState:
    """The state of a run that can take an external answer.

    Raises:
        UserError: it cannot.
    """
    state = read_state(folder)
    if not external_roles(state.config.llm):
        models = ", ".join(sorted({name for names in model_names(state.config.llm).values() for name in names}))
        raise UserError(
            f"The run in {folder} is answered by {models}, not by hand: continue it with pike resume {folder}"
        )
    if state.finished:
        spent = f"{state.accounts.spend.queries} of {state.config.budget.queries} queries are spent"
        raise UserError(f"The run in {folder} is finished ({state.closing}; {spent}): see pike report {folder}")
    return state
