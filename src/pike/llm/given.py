"""Clients of answers that exist already, by step: recorded ones, and those from outside the process.

Knows no journal and no way that an answer comes from (`engine`). A client never waits: a query for a
step without an answer fails at once.
"""

from collections.abc import Mapping
from dataclasses import replace

from pike.core.errors import ProviderError
from pike.core.query import Answer, Query
from pike.llm.client import LocalClient
from pike.llm.tokens import approximate_tokens


class ReplayClient(LocalClient):
    """Answers every query as it was answered before, at once.

    Args:
        name: for example `replay:runs/demo`.
        answers: the recorded answers by step id; their cost and latency are repeated as recorded.
    """

    def __init__(self, name: str, answers: Mapping[int, Answer]) -> None:
        super().__init__(name)
        self._answers = dict(answers)

    async def complete(self, query: Query) -> Answer:
        """The recorded answer of the query's step.

        Raises:
            ProviderError: the recorded run has no answer for this step (never transient).
        """
        answer = self._answers.get(query.step_id)
        if answer is None:
            raise ProviderError(f"{self.name} has no answer recorded for step {query.step_id}", transient=False)
        return answer


class ExternalClient(LocalClient):
    """Passes on what it was given.

    Where an answer states no tokens, they are estimated from the texts, so that a token budget
    still holds. Money counts only where the answer states it.
    """

    def __init__(self, name: str = "by-hand") -> None:
        super().__init__(name)
        self._answers: dict[int, Answer] = {}

    def give(self, step_id: int, answer: Answer) -> None:
        """Take the answer to a step."""
        self._answers[step_id] = answer

    async def complete(self, query: Query) -> Answer:
        """The answer that was given to the step of the query.

        Raises:
            ProviderError: there is none.
        """
        answer = self._answers.get(query.step_id)
        if answer is None:
            raise ProviderError(f"there is no answer to step {query.step_id} yet", transient=False)
        return replace(
            answer,
            model=answer.model or self.name,
            input_tokens=answer.input_tokens or approximate_tokens(query.system + query.prompt),
            output_tokens=answer.output_tokens or approximate_tokens(answer.text),
        )
