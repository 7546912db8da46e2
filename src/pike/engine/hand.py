"""Answers from outside: one that came in with this process, and the pace of a run that waits for them.

Knows which steps wait for somebody outside and which of them the answer in hand is for. Does not know who answers or
how a process comes to take an answer (`byhand`). The run itself is like every other: the answer passes the ledger into
the journal, is read like a model's and judged like a model's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pike.core.config import LlmConfig
from pike.core.query import Answer
from pike.core.step import Role
from pike.engine.memory import Memory, StepState
from pike.engine.models import model_names
from pike.engine.replay import FreePace
from pike.llm.hand import NAME, HandClient


@dataclass(slots=True)
class Hand:
    """What one process brings to a run that is answered by hand.

    Attributes:
        answer: the answer it was given, None for none.
        step: the step that the answer is for, None for the one that waits longest, or else the next.
        asks: a prompt is wanted, so a step is asked unless one waits.
        over: why the run is to end, empty for going on.
        taken: the step that took the answer.
    """

    answer: Answer | None = None
    step: int | None = None
    asks: bool = False
    over: str = ""
    taken: int | None = None

    @property
    def wants_step(self) -> bool:
        """Whether a step is needed that does not wait yet."""
        return self.asks or (self.answer is not None and self.step is None and self.taken is None)


def hand_roles(config: LlmConfig) -> frozenset[Role]:
    """The roles that are answered by hand."""
    return frozenset(role for role, names in model_names(config).items() if NAME in names)


def waiting(memory: Memory) -> list[StepState]:
    """The steps that nobody has answered yet, the oldest first."""
    roles = hand_roles(memory.config.llm)
    return [state for state in memory.open_steps() if state.step.role in roles and _unanswered(memory, state)]


def _unanswered(memory: Memory, state: StepState) -> bool:
    return state.candidate is None and state.step.id not in memory.answers


class HandPace(FreePace):
    """Asks no further ahead than somebody wants to know, because a query counts when it is asked.

    Where models answer some of the roles, their steps go on by themselves, and as many wait as may be in flight.

    Args:
        memory: the run's state.
        client: passes the answer on.
        hand: what this process brought.
        roles: every role that is answered at all.
    """

    outside = True

    def __init__(self, memory: Memory, client: HandClient, hand: Hand, roles: Collection[Role]) -> None:
        super().__init__(memory.config.engine.concurrency)
        self.over = hand.over
        self._memory = memory
        self._client = client
        self._hand = hand
        self._mixed = not set(roles) <= hand_roles(memory.config.llm)

    def may_ask(self) -> bool:
        """Whether fewer steps wait than are wanted."""
        room = self.limit or 1 if self._mixed else int(self._hand.wants_step)
        out = [state for state in waiting(self._memory) if state.step.id != self._hand.taken]
        return len(out) < room

    def answers(self, step_id: int) -> bool:
        """Whether the step can go on in this process; the answer in hand goes to the first step that it fits."""
        state, hand = self._memory.steps[step_id], self._hand
        if state.step.role not in hand_roles(self._memory.config.llm) or not _unanswered(self._memory, state):
            return True
        if hand.answer is None or hand.taken is not None or hand.step not in (None, step_id):
            return False
        hand.taken = step_id
        self._client.give(step_id, hand.answer)
        return True
