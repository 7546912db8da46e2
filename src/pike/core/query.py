"""One question to a language model and its answer, as records.

Knows what is sent, what comes back and its cost. Does not know any provider or protocol (`llm`).
"""

from dataclasses import dataclass
from enum import StrEnum

from pike.core.step import Role


class Finish(StrEnum):
    """Why a model stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"


class ReasoningEffort(StrEnum):
    """How much a model is asked to think before it answers."""

    DEFAULT = ""
    """As the model has it."""
    OFF = "off"
    """Not at all, or as little as the model can."""
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a model.

    Attributes:
        step_id: the step it serves (a step has one query; retries are attempts of it).
        max_output_tokens: output limit, thinking included.
        effort: how much the model thinks; a model without such a setting ignores it.
        top_p: nucleus sampling, None for the model's default.
        top_k: sample among so many tokens only, None for the model's default.
    """

    step_id: int
    role: Role
    system: str
    prompt: str
    temperature: float
    max_output_tokens: int
    effort: ReasoningEffort = ReasoningEffort.DEFAULT
    top_p: float | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a model.

    Attributes:
        model: the model that answered, as the provider names it.
        input_tokens: prompt tokens, those that the provider had in its cache included.
        output_tokens: answer tokens, thinking included.
        thinking_tokens: the part of `output_tokens` that was thinking, 0 where not reported.
        cached_tokens: the part of `input_tokens` that came from the provider's cache.
        usd: its cost, None where the price is unknown (never guessed as 0).
        latency_seconds: from sending to the last byte.
        parent: id of the candidate that the answer continues, empty where it does not say.
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
    cached_tokens: int = 0
