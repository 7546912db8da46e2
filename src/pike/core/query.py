"""One question to a language model and its answer, as records.

Knows what is sent, what comes back and what it cost. Does not know any provider or protocol (`llm`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pike.core.step import Role


class Finish(StrEnum):
    """Why a model stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a model.

    Attributes:
        step_id: the step it serves (a step has one query; retries are attempts of it).
        role: who is asked.
        system: the system prompt.
        prompt: the user prompt.
        temperature: sampling temperature.
        max_output_tokens: output limit, thinking included.
    """

    step_id: int
    role: Role
    system: str
    prompt: str
    temperature: float
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model returned.

    Attributes:
        text: the visible answer.
        finish: why it stopped.
        model: who answered, as the provider names it.
        input_tokens: prompt tokens.
        output_tokens: answer tokens, thinking included.
        thinking_tokens: the part of `output_tokens` that was thinking, 0 where not reported.
        usd: what it cost, None where the price is unknown (never guessed as 0).
        latency_seconds: from sending to the last byte.
        parent: id of the candidate that the answer says it continues, empty where it does not say.
    """

    text: str
    finish: Finish = Finish.STOP
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    usd: float | None = None
    latency_seconds: float = 0.0
    parent: str = ""
