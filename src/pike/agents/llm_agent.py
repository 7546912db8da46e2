"""The agent that asks language models: prompt, question, and the reading of the answer.

Knows every role and how its answer is read. Does not know clients, retries or money: it is given
one asker for each role.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from pike.agents.prompts.prompting import PromptTooLong, render
from pike.agents.reading.extract import cut_off, extract
from pike.agents.reading.ideas import parse_ideas
from pike.agents.reading.plans import find, improvable, instructions, refusal
from pike.core.agent import Context, Proposal
from pike.core.query import Answer, Finish, Query
from pike.core.step import LAST_OF, ORIGINAL, Role, Step
from pike.core.text.printable import printable

Asker = Callable[[Query], Awaitable[Answer]]
"""Asks one question; the engine adds the ledger and the retries."""

NOTE_CHARACTERS = 120
_COMMENT = re.compile(r"\A(?:#!.*\n)?\s*(?:#+\s*|(?:[rR]?\"\"\"|''')\s*)(.+)")


class LlmAgent:
    """Answers steps by asking language models."""

    def __init__(self, askers: Mapping[Role, Asker]) -> None:
        self._askers = dict(askers)

    async def act(self, context: Context) -> Proposal:
        """Answer one step with one query.

        An answer without a usable file, or with one that left its plan's anchors, gives a proposal
        with `refused`. An unusable list of ideas or plan, or a model that declines, gives a proposal
        with `failure`, as does a prompt that has outgrown the model's window.

        Raises:
            PromptTooLong: the window is too small for the original alone.
        """
        try:
            query = query_for(context)
        except PromptTooLong as error:
            if context.step.seed == ORIGINAL and context.failing is None:
                raise  # no step of this run could be asked
            return Proposal(failure=str(error))
        answer = await self._askers[context.step.role](query)
        if answer.finish is Finish.REFUSED:
            return Proposal(author=answer.model, failure=f"{answer.model or 'the model'} declined to answer")
        match context.step.role:
            case Role.BRAINSTORM:
                return _read_ideas(answer)
            case Role.PLAN:
                found = find(answer, improvable(context))
                return Proposal(text=found.text, author=answer.model, failure=found.failure)
            case Role.CODE | Role.DEBUG:
                return _held_to_plan(context, _read_candidate(context.step, answer))
            case _:
                return _read_candidate(context.step, answer)


def query_for(context: Context) -> Query:
    """The question of a step."""
    step, prompt = context.step, render(context)
    return Query(step.id, step.role, prompt.system, prompt.user, step.temperature, step.max_output_tokens)


def _read_ideas(answer: Answer) -> Proposal:
    ideas = parse_ideas(answer.text)
    failure = "" if ideas else f"the answer holds no list of ideas{cut_off(answer.finish)}"
    return Proposal(ideas=ideas, author=answer.model, note=f"{len(ideas)} ideas", failure=failure)


def _read_candidate(step: Step, answer: Answer) -> Proposal:
    found = extract(answer.text, answer.finish)
    note = _note(step, found.source, f"{LAST_OF}{found.files} files in the answer" if found.files > 1 else "")
    return Proposal(found.source, author=answer.model, note=note, refused=found.refused, parent=answer.parent)


def _held_to_plan(context: Context, proposal: Proposal) -> Proposal:
    return proposal if proposal.refused else replace(proposal, refused=refusal(context, proposal.source))


def _note(step: Step, source: str, remark: str) -> str:
    """One line on the candidate: a remark, then its idea or plan, or its own first comment."""
    comment = _COMMENT.match(source)
    text = comment[1].strip("\"' ") if comment else ""
    given = step.idea or (" / ".join(instructions(step.plan)) if step.role is Role.CODE else "")
    if given:
        text = given.strip().partition("\n")[0]
    if step.role.repairs:
        text = f"fix {step.attempt} of {step.failing}" + (f": {text}" if text else "")
    line = " ".join(printable(": ".join(filter(None, (remark, text)))).split())
    return line if len(line) <= NOTE_CHARACTERS else line[: NOTE_CHARACTERS - 1] + "…"
