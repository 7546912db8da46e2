"""What a move of a run by hand gives back: where the run stands, what it asks, what became of an answer.

Knows how these are computed from the run's memory. Does not know how a move is made (`byhand`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pike.core.budget import Budget, Spend
from pike.core.events import Entry, Told
from pike.core.step import Solution, Step
from pike.engine.hand import waiting
from pike.engine.memory import Memory
from pike.engine.result import RunResult, result_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands.

    Attributes:
        result: what it has come to by now.
        waiting: the steps that wait for an answer, the oldest first.
        left: queries of the budget that nobody has answered or begun to answer.
        best: the fastest valid candidate with the verdict of the search, None before one.
    """

    result: RunResult
    waiting: tuple[Step, ...]
    left: int
    best: Solution | None

    @property
    def spend(self) -> Spend:
        """What was spent; a step that waits counts already."""
        return self.result.spend

    @property
    def budget(self) -> Budget:
        """The limits."""
        return self.result.budget


@dataclass(frozen=True, slots=True)
class Question:
    """What a step asks.

    Attributes:
        step: the step.
        system: the system prompt.
        prompt: the prompt.
        standing: where the run stands.
    """

    step: Step
    system: str
    prompt: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of an answer.

    Attributes:
        step: the step that it answered; for a file that the run knew already, the one that it answered first.
        solution: the candidate with its verdict, None where the step asks for something else or has no verdict yet.
        ideas: what it brought to a brainstorming step.
        text: what it brought to a planning step.
        failure: why it brought nothing.
        known: this run has judged the very same file before: nothing was judged and no query was used.
        standing: where the run stands now.
    """

    step: Step | None
    solution: Solution | None
    ideas: tuple[str, ...]
    text: str
    failure: str
    known: bool
    standing: Standing


def standing_of(memory: Memory, folder: Path) -> Standing:
    """Where the run in `memory` stands."""
    out = tuple(state.step for state in waiting(memory))
    left = memory.config.budget.queries - memory.accounts.spend.queries + sum(step.queries for step in out)
    left = 0 if memory.closing else max(0, left)
    return Standing(result_of(memory, folder, memory.seconds), out, left, memory.best)


def reply_of(entries: Sequence[Entry], memory: Memory, folder: Path, step_id: int) -> Reply:
    """What became of the answer to a step."""
    events = (entry.event for entry in entries)
    told = next((event for event in events if isinstance(event, Told) and event.step_id == step_id), None)
    state = memory.steps[step_id]
    solution = memory.solutions.get(state.candidate.id) if state.candidate else None
    ideas, text, failure = (told.ideas, told.text, told.failure) if told else ((), "", "it is not judged yet")
    return Reply(state.step, solution, ideas, text, failure, False, standing_of(memory, folder))


def known_reply(memory: Memory, folder: Path, solution: Solution) -> Reply:
    """What is said to a file that the run has judged before."""
    steps = (state.step for state in memory.steps.values() if state.candidate == solution.candidate)
    return Reply(next(steps, None), solution, (), "", "", True, standing_of(memory, folder))
