"""Request settings that a model accepts, learnt from its refusals.

Knows refusals (HTTP 400) that servers word alike: no `temperature`, `top_p` or `top_k`, no
reasoning effort, no streaming, too many output tokens, and a context window that is too small. Does
not send anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from pike.core.query import Query, ReasoningEffort
from pike.llm.tokens import most_tokens

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings

LEAST_OUTPUT_TOKENS = 1_024
"""Below this no candidate file fits, so a smaller output limit would be useless."""

MOST_SILENCES = 12
"""A streamed answer may take this many times the limit on silence: a server may send pings for ever."""

_MAX_TOKENS = re.compile(r"max_(?:completion_|output_)?tokens", re.IGNORECASE)
_OUTPUT_LIMIT = re.compile(r"(?:at most|maximum of|<=|less than or equal to)\s+(\d{3,7})", re.IGNORECASE)
_CONTEXT_LIMIT = re.compile(r"maximum context length is\s+(\d{3,8})", re.IGNORECASE)
_SAMPLING = ("top_k", "top_p", "temperature")
"""Where a server takes only one of them, `temperature` is the one that stays."""
_STREAM = re.compile(r"\bstream(?:ing|_options)?\b", re.IGNORECASE)
_EFFORT = re.compile(r"reasoning[._ ]effort|\bthinking\b|\breasoning\b", re.IGNORECASE)


class Adaptation:
    """What one client has learnt about its model.

    Args:
        effort_setting: the pydantic-ai setting that takes the reasoning effort.
        streams: answers are streamed, so that a limit of time counts silence only.
    """

    def __init__(self, effort_setting: str = "thinking", streams: bool = False) -> None:
        self.streams = streams
        self._effort_setting = effort_setting
        self._sends = set(_SAMPLING)
        self._sends_effort = True
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
        settings: dict[str, Any] = {
            "max_tokens": limit,
            "timeout": timeout_seconds,
            "request_timeout": timeout_seconds * (MOST_SILENCES if self.streams else 1),
            "max_retries": 0,
        }
        for name in _SAMPLING:
            if name in self._sends and (value := getattr(query, name)) is not None:
                settings[name] = value
        if self._sends_effort and query.effort is not ReasoningEffort.DEFAULT:
            settings[self._effort_setting] = self._effort(query.effort)
        return cast("ModelSettings", settings)

    def learn(self, sent: ModelSettings, status: int, body: str) -> str:
        """What a refusal of a request with these settings teaches, empty for nothing."""
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
        for name in _SAMPLING:
            if name in sent and re.search(rf"\b{name}\b", body, re.IGNORECASE):
                self._sends.discard(name)
                return f"takes no {name}"
        if self._effort_setting in sent and _EFFORT.search(body):
            self._sends_effort = False
            return "takes no such reasoning effort"
        if self.streams and _STREAM.search(body):
            self.streams = False
            return "does not stream"
        return ""

    def _effort(self, effort: ReasoningEffort) -> str | bool:
        if effort is ReasoningEffort.OFF:
            return False if self._effort_setting == "thinking" else "none"
        return effort.value
