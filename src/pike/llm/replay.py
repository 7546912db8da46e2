"""A client that repeats the answers of a finished run.

Knows answers by step id. Does not know journals: the engine reads them and hands the answers over.
"""

from __future__ import annotations

from collections.abc import Mapping

from pike.core.errors import ProviderError
from pike.core.query import Answer, Query
from pike.llm.client import Price


class ReplayClient:
    """Answers every query as it was answered before, at once.

    Args:
        name: for example `replay:runs/demo`.
        answers: the recorded answers by step id; their cost and latency are repeated as recorded.
    """

    def __init__(self, name: str, answers: Mapping[int, Answer]) -> None:
        self._name = name
        self._answers = dict(answers)

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return self._name

    async def complete(self, query: Query) -> Answer:
        """The recorded answer of the query's step.

        Raises:
            ProviderError: the recorded run has no answer for this step (never transient).
        """
        answer = self._answers.get(query.step_id)
        if answer is None:
            raise ProviderError(f"{self._name} has no answer recorded for step {query.step_id}", transient=False)
        return answer

    def price(self) -> Price | None:
        """None: what each answer cost is in the recording."""
        return None

    async def check(self) -> None:
        """Nothing to verify: a run without recorded answers replays a run whose queries all failed."""

    async def aclose(self) -> None:
        """Nothing to close."""
