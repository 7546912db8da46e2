"""Which external answers a run takes, how they are read, and which steps they answer.

Knows what no model could have written, which steps wait, and whether the run has an answer already.
Writes nothing: an answer that is refused here costs nothing.
"""

import math
import re
from pathlib import Path

from pike.core.errors import UserError, saying
from pike.core.query import Answer
from pike.core.step import ORIGINAL, Solution, Step
from pike.core.text.parsing import parse
from pike.engine.run.external_answers import waiting
from pike.engine.run.loop import ELSEWHERE, WAITING
from pike.engine.state.run_state import RunState
from pike.search import FREE_FORM

ANSWER_BYTES = 1024 * 1024
"""The longest answer that is taken; honest ones are far shorter."""
AUTHOR_CHARACTERS = 100
_BINARY = re.compile("[\0\ud800-\udfff]")  # a zero byte, or half of a surrogate pair, which UTF-8 cannot hold


def as_answer(source: str) -> Answer:
    """A candidate file as an answer: the whole file is the candidate, even if it is not valid."""
    from pike.agents import fence

    return Answer(fence(source, "python")) if source.strip() else Answer("")


def read_answer(path: Path) -> Answer:
    """Read an answer from a file: a candidate if it ends in `.py`, else a model's answer.

    Raises:
        UserError: the file cannot be read, is too long or is no text.
    """
    with saying(UserError, f"The answer {path} cannot be read", "give a file, or - for stdin"), path.open("rb") as file:
        data = file.read(ANSWER_BYTES + 1)
    return answer_from(data, f"The answer {path}", is_file=path.suffix == ".py")


def answer_from(data: bytes, what: str, *, is_file: bool) -> Answer:
    """Make an answer of bytes from a file or a pipe.

    Args:
        data: the bytes.
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
        raise UserError(f"{what} is no text (byte {error.start:,}): give it in UTF-8") from None
    return as_answer(text) if is_file else Answer(text)


def check(answer: Answer, state: RunState) -> None:
    """Refuse what no model could have written.

    Raises:
        UserError: it is empty, too long or no text, or its cost, author or parent cannot be used.
    """
    size = len(answer.text.encode("utf-8", "replace"))
    if not answer.text.strip():
        raise UserError("The answer is empty: give the whole candidate file, or what the prompt asks for")
    if size > ANSWER_BYTES:
        raise UserError(f"The answer has {size:,} bytes, and at most {ANSWER_BYTES:,} are taken: send only the file")
    if _BINARY.search(answer.text):
        raise UserError("The answer is binary: send the source text of a Python file")
    if answer.usd is not None and not (math.isfinite(answer.usd) and answer.usd >= 0.0):
        raise UserError(f"An answer cannot cost {answer.usd} US dollars: give an amount, or leave it out")
    if len(answer.model) > AUTHOR_CHARACTERS or not answer.model.isprintable():
        raise UserError(f"The author's name must be one line of at most {AUTHOR_CHARACTERS} characters")
    if answer.parent not in ("", ORIGINAL, *state.solutions):
        known = ", ".join([ORIGINAL, *list(state.solutions)[-8:]])
        raise UserError(f"There is no candidate '{answer.parent}' in this run to continue; the latest are {known}")


def require_syntax(answer: Answer, state: RunState) -> None:
    """Refuse a file that does not parse, where answers are files and nobody else repairs them.

    Raises:
        UserError: with the line; nothing was judged and no query was used.
    """
    if state.config.strategy.preset != FREE_FORM:
        return
    from pike.agents import extract

    found = extract(answer.text)
    try:
        parse("" if found.refused else found.source)
    except SyntaxError as error:
        raise UserError(
            f"The file does not parse, so it was not judged and no query was used: line {error.lineno}: {error.msg}; "
            "mend it and send it again"
        ) from None


def answered_step(state: RunState, folder: Path, step: int | None) -> int | None:
    """The step that an answer is for, None for the next step of a free-form run."""
    found = waiting(state)
    if step is None and len(found) < 2 and state.config.strategy.preset == FREE_FORM:
        return found[0].step.id if found else None
    if step is None and not found:
        raise UserError(f"No prompt of the run in {folder} is out, so nothing can be answered: pike ask {folder}")
    if step is None and len(found) > 1:
        ids = ", ".join(str(step_state.step.id) for step_state in found)
        raise UserError(f"Several prompts are out: say which one is answered, with --step and one of {ids}")
    return waiting_step(state, folder, step).id


def waiting_step(state: RunState, folder: Path, step: int | None) -> Step:
    """The step of that id, or the one that waits longest.

    Raises:
        UserError: it does not wait, or none does.
    """
    found = [step_state.step for step_state in waiting(state)]
    if not found:
        verb = {ELSEWHERE: "bundle", WAITING: "ask"}.get(state.stopped, "resume")
        why = "no prompt is out" if state.stopped == WAITING else state.stopped
        raise UserError(f"Nothing waits for an answer in {folder} ({why}): pike {verb} {folder}")
    if step is None:
        return found[0]
    for one in found:
        if one.id == step:
            return one
    raise UserError(f"Step {step} does not wait for an answer; what waits: {', '.join(str(one.id) for one in found)}")


def taken_by(state: RunState, answer: Answer, step: int | None) -> int | None:
    """The open step that has this answer already: an earlier process died before it replied."""
    for step_state in state.open_steps():
        had = state.answers.get(step_state.step.id)
        if had is not None and had.text == answer.text and step in (None, step_state.step.id):
            return step_state.step.id
    return None


def known_solution(state: RunState, answer: Answer) -> Solution | None:
    """In a free-form run, the earlier solution with the same file, if there is one."""
    if state.config.strategy.preset != FREE_FORM:
        return None
    from pike.agents import extract

    source = extract(answer.text).source
    if state.verdict_on(source) is None:
        return None
    return next(found for found in state.solutions.values() if found.candidate.source == source)
