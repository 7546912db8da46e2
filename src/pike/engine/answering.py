"""Which answers by hand a run takes, and what they answer.

Knows what no model could have written, which steps wait, and when an answer is one that the run has already. Writes
nothing: what is refused here costs nothing.
"""

from __future__ import annotations

import math
from pathlib import Path

from pike.core.errors import UserError
from pike.core.query import Answer
from pike.core.step import ORIGINAL, Solution, Step
from pike.engine.hand import waiting
from pike.engine.memory import Memory
from pike.search.agent import NAME as FREE_FORM

ANSWER_BYTES = 1024 * 1024
"""The longest answer that is taken; no honest one comes near."""
AUTHOR_CHARACTERS = 100


def as_answer(source: str) -> Answer:
    """A candidate file as an answer: the whole file is the candidate, even where it is no valid Python."""
    from pike.agents.fences import fence

    return Answer(fence(source, "python")) if source.strip() else Answer("")


def check(answer: Answer, memory: Memory) -> None:
    """Refuse what no model could have written.

    Raises:
        UserError: it is empty, too long or no text, costs no amount, or its author or parent cannot be used.
    """
    size = len(answer.text.encode("utf-8", "replace"))
    if not answer.text.strip():
        raise UserError("The answer is empty: give the whole candidate file, or what the prompt asks for")
    if size > ANSWER_BYTES:
        raise UserError(f"The answer has {size:,} bytes, and at most {ANSWER_BYTES:,} are taken: send only the file")
    if "\0" in answer.text or not _is_text(answer.text):
        raise UserError("The answer is binary: send the source text of a Python file")
    if answer.usd is not None and not (math.isfinite(answer.usd) and answer.usd >= 0.0):
        raise UserError(f"An answer cannot cost {answer.usd} US dollars: give an amount, or leave it out")
    if len(answer.model) > AUTHOR_CHARACTERS or not answer.model.isprintable():
        raise UserError(f"The author's name must be one line of at most {AUTHOR_CHARACTERS} characters")
    if answer.parent not in ("", ORIGINAL, *memory.solutions):
        known = ", ".join([ORIGINAL, *list(memory.solutions)[-8:]])
        raise UserError(f"There is no candidate '{answer.parent}' in this run to continue; the latest are {known}")


def _is_text(text: str) -> bool:
    """Whether it can be written as UTF-8 (no halves of surrogate pairs)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def answered_step(memory: Memory, folder: Path, step: int | None) -> int | None:
    """The step that an answer is for, None where the next step of a free-form run will be."""
    found = waiting(memory)
    if step is None and len(found) < 2 and memory.config.strategy.preset == FREE_FORM:
        return found[0].step.id if found else None
    if step is None and not found:
        raise UserError(f"No prompt of the run in {folder} is out, so nothing can be answered: pike ask {folder}")
    if step is None and len(found) > 1:
        ids = ", ".join(str(state.step.id) for state in found)
        raise UserError(f"Several prompts are out: say which one is answered, with --step and one of {ids}")
    return waiting_step(memory, folder, step).id


def waiting_step(memory: Memory, folder: Path, step: int | None) -> Step:
    """The step of that id, or the one that waits longest.

    Raises:
        UserError: it does not wait, or none does.
    """
    found = [state.step for state in waiting(memory)]
    if not found:
        raise UserError(f"Nothing waits for an answer in {folder} ({memory.stopped}): pike resume {folder}")
    if step is None:
        return found[0]
    for one in found:
        if one.id == step:
            return one
    raise UserError(f"Step {step} does not wait for an answer; what waits: {', '.join(str(one.id) for one in found)}")


def taken_by(memory: Memory, answer: Answer, step: int | None) -> int | None:
    """The open step that has this very answer already: it was told before by a process that did not live to reply."""
    for state in memory.open_steps():
        had = memory.answers.get(state.step.id)
        if had is not None and had.text == answer.text and step in (None, state.step.id):
            return state.step.id
    return None


def known_solution(memory: Memory, answer: Answer) -> Solution | None:
    """The earlier solution with the very same file in a free-form run, whose verdict would only be repeated."""
    if memory.config.strategy.preset != FREE_FORM:
        return None
    from pike.agents import extract

    source = extract(answer.text).source
    if memory.verdict_on(source) is None:
        return None
    return next(found for found in memory.solutions.values() if found.candidate.source == source)
