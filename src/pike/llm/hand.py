"""A client whose answers come from outside the process: from a person or a coding agent, one at a time.

Knows the answers that it was given, by step. Does not know how they got here (`engine.byhand`). Nobody waits in it: who
asks for a step that nobody has answered yet is told so.
"""

from __future__ import annotations

from dataclasses import replace

from pike.core.errors import ProviderError
from pike.core.query import Answer, Query
from pike.llm.client import Price
from pike.llm.tokens import approximate_tokens

NAME = "by-hand"
"""What `--llm` calls it."""


class HandClient:
    """Passes on what it was given.

    Where an answer does not say its tokens they are estimated from the texts, so that a token budget still holds; money
    is counted only where the answer says it.
    """

    def __init__(self) -> None:
        self._answers: dict[int, Answer] = {}

    @property
    def name(self) -> str:
        """The name it was connected by."""
        return NAME

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
            raise ProviderError(f"nobody has answered step {query.step_id} yet", transient=False)
        return replace(
            answer,
            model=answer.model or NAME,
            input_tokens=answer.input_tokens or approximate_tokens(query.system + query.prompt),
            output_tokens=answer.output_tokens or approximate_tokens(answer.text),
        )

    def price(self) -> Price | None:
        """None: what an answer cost is known only when it says so."""
        return None

    async def check(self) -> None:
        """Nothing to verify."""

    async def aclose(self) -> None:
        """Nothing to close."""
