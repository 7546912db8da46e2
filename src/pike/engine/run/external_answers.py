"""External answers: those that this process was given, and the pace of a run that waits for them.

Knows which steps wait for an external answer, and which step a given answer is for. Does not know
who answers, or how a process comes to take an answer (`external_run`).
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from pike.core.query import Answer
from pike.core.settings.config import LlmConfig
from pike.core.step import Role
from pike.engine.state.models import model_names
from pike.engine.state.pace import FreePace
from pike.engine.state.run_state import RunState, StepState
from pike.llm import EXTERNAL, ExternalClient


@dataclass(slots=True)
class ExternalAnswers:
    """What one process brings to a run with external answers.

    Attributes:
        given: the answers by step; the one under None is for the step that waits longest, or else
            for the next.
        prompts: how many prompts are wanted; so many steps are asked, less those that wait.
        over: why the run is to end, empty for going on.
        taken: the steps that took an answer.
    """

    given: dict[int | None, Answer] = field(default_factory=dict)
    prompts: int = 0
    over: str = ""
    taken: set[int] = field(default_factory=set)

    @property
    def wanted(self) -> int:
        """How many steps should wait."""
        return max(self.prompts, int(None in self.given))

    def take(self, step_id: int) -> Answer | None:
        """The answer for a step that waits, None where there is none; it is given once."""
        for key in (step_id, None):
            if key in self.given:
                self.taken.add(step_id)
                return self.given.pop(key)
        return None


def external_roles(config: LlmConfig) -> frozenset[Role]:
    """The roles with external answers."""
    return frozenset(role for role, names in model_names(config).items() if EXTERNAL in names)


def waiting(state: RunState) -> list[StepState]:
    """The steps that wait for an external answer, the oldest first."""
    roles = external_roles(state.config.llm)
    return [one for one in state.open_steps() if one.step.role in roles and _unanswered(state, one)]


def _unanswered(state: RunState, step_state: StepState) -> bool:
    return step_state.candidate is None and step_state.step.id not in state.answers


class ExternalPace(FreePace):
    """Asks no further ahead than prompts are wanted, because a query counts when it is asked.

    Where models answer some of the roles, their steps go on by themselves. As many steps then wait
    as may be in flight.
    """

    outside = True

    def __init__(
        self, state: RunState, client: ExternalClient, external: ExternalAnswers, roles: Collection[Role]
    ) -> None:
        super().__init__(state.config.engine.concurrency, lambda: external.over)
        self._state = state
        self._client = client
        self._external = external
        self._mixed = not set(roles) <= external_roles(state.config.llm)

    def may_ask(self) -> bool:
        """Whether fewer steps wait than are wanted."""
        room = self.limit or 1 if self._mixed else self._external.wanted
        out = [one for one in waiting(self._state) if one.step.id not in self._external.taken]
        return len(out) < room

    def answers(self, step_id: int) -> bool:
        """Whether the step can go on now; the answer goes to the first step that it fits."""
        step_state = self._state.steps[step_id]
        if step_state.step.role not in external_roles(self._state.config.llm) or not _unanswered(
            self._state, step_state
        ):
            return True
        answer = self._external.take(step_id)
        if answer is None:
            return False
        self._client.give(step_id, answer)
        return True
