"""Request settings that a model will take, learnt from its refusals.

Knows three refusals (HTTP 400) that servers word alike: no `temperature`, fewer output tokens than asked for, and
a context window that prompt and output limit overflow together. Does not send anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pike.core.query import Query
from pike.llm.tokens import most_tokens

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings

LEAST_OUTPUT_TOKENS = 1_024
"""Below this no candidate file fits, and shrinking the output limit further helps nobody."""

_MAX_TOKENS = re.compile(r"max_(?:completion_|output_)?tokens", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(r"(?:at most|maximum of|<=|less than or equal to)\s+(\d{3,7})", re.IGNORECASE)
_CONTEXT_LIMIT = re.compile(r"maximum context length is\s+(\d{3,8})", re.IGNORECASE)
_TEMPERATURE = re.compile(r"\btemperature\b", re.IGNORECASE)


class Adaptation:
    """What one client has learnt about its model."""

    def __init__(self) -> None:
        self._sends_temperature = True
        self._output_tokens: int | None = None
        self._context_tokens: int | None = None

    def settings(self, query: Query, timeout_seconds: float) -> ModelSettings:
        """The settings of one request; the SDK's own retries are off."""
        limit = query.max_output_tokens
        if self._output_tokens is not None:
            limit = min(limit, self._output_tokens)
        if self._context_tokens is not None:
            room = self._context_tokens - most_tokens(query.system, query.prompt)
            limit = min(limit, max(room, LEAST_OUTPUT_TOKENS))
        settings: ModelSettings = {
            "max_tokens": limit,
            "timeout": timeout_seconds,
            "request_timeout": timeout_seconds,
            "max_retries": 0,
        }
        if self._sends_temperature:
            settings["temperature"] = query.temperature
        return settings

    def learn(self, sent: ModelSettings, status: int, body: str) -> str:
        """What a refusal of a request with the settings `sent` teaches, empty when nothing new could help."""
        if status not in (400, 422):
            return ""
        asked = sent["max_tokens"]
        if (context := _CONTEXT_LIMIT.search(body)) and asked > LEAST_OUTPUT_TOKENS:
            self._context_tokens = int(context[1])
            return f"reads and writes at most {context[1]} tokens together"
        output = _OUTPUT_LIMIT.search(body) if _MAX_TOKENS.search(body) else None
        if output and asked > int(output[1]):
            self._output_tokens = int(output[1])
            return f"writes at most {output[1]} tokens"
        if "temperature" in sent and _TEMPERATURE.search(body):
            self._sends_temperature = False
            return "takes no temperature"
        return ""
