"""The bodies that providers send, as far as our clients read them.

Knows one normal answer in the words of OpenAI Chat Completions, OpenAI Responses, Anthropic Messages and Google
generateContent, and their error bodies. Does not know sockets (`fake_server`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Dialect(StrEnum):
    """Which API a path belongs to."""

    CHAT = "chat"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    MODELS = "models"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A normal answer before it is put into a provider's words.

    Attributes:
        text: the visible answer.
        model: the model as the provider names it.
        finish: `stop`, `length` or `refused`.
        input_tokens: prompt tokens.
        output_tokens: answer tokens, thinking included.
        thinking_tokens: the part that was thinking.
        has_usage: False leaves the usage out, as some servers do.
        usd: what OpenRouter says it charged, left out when None.
    """

    text: str
    model: str
    finish: str
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    has_usage: bool = True
    usd: float | None = None


def dialect_of(path: str) -> Dialect:
    """The API that a request path belongs to."""
    if path.endswith("/chat/completions"):
        return Dialect.CHAT
    if path.endswith("/responses"):
        return Dialect.RESPONSES
    if path.endswith("/messages"):
        return Dialect.ANTHROPIC
    if ":generateContent" in path:
        return Dialect.GOOGLE
    return Dialect.MODELS if "/models" in path or path.endswith("/key") else Dialect.UNKNOWN


def answer_body(dialect: Dialect, answer: WireAnswer) -> dict[str, Any]:
    """The body of a successful response."""
    body = _BODIES[dialect](answer)
    if not answer.has_usage:
        body.pop("usage", None)
        body.pop("usageMetadata", None)
    return body


def error_body(dialect: Dialect, status: int, code: str, message: str) -> dict[str, Any]:
    """The body of a failed response."""
    if dialect is Dialect.ANTHROPIC:
        return {"type": "error", "error": {"type": code or "api_error", "message": message}}
    if dialect is Dialect.GOOGLE:
        return {"error": {"code": status, "message": message, "status": code or "INTERNAL"}}
    return {"error": {"message": message, "type": code or "server_error", "param": None, "code": code or None}}


def _chat(answer: WireAnswer) -> dict[str, Any]:
    finish = {"length": "length", "refused": "content_filter"}.get(answer.finish, "stop")
    usage: dict[str, Any] = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": answer.thinking_tokens},
    }
    if answer.usd is not None:
        usage["cost"] = answer.usd
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": answer.model,
        "provider": "fake",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": answer.text}},
        ],
        "usage": usage,
    }


def _responses(answer: WireAnswer) -> dict[str, Any]:
    reason = {"length": "max_output_tokens", "refused": "content_filter"}.get(answer.finish)
    content = {"type": "output_text", "text": answer.text, "annotations": []}
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "model": answer.model,
        "output": [
            {"type": "message", "id": "msg_fake", "role": "assistant", "status": "completed", "content": [content]},
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": answer.thinking_tokens},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def _anthropic(answer: WireAnswer) -> dict[str, Any]:
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [{"type": "text", "text": answer.text}],
        "stop_reason": {"length": "max_tokens", "refused": "refusal"}.get(answer.finish, "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
    }


def _google(answer: WireAnswer) -> dict[str, Any]:
    return {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": answer.text}]},
                "finishReason": {"length": "MAX_TOKENS", "refused": "SAFETY"}.get(answer.finish, "STOP"),
            }
        ],
        "modelVersion": answer.model,
        "usageMetadata": {
            "promptTokenCount": answer.input_tokens,
            "candidatesTokenCount": answer.output_tokens - answer.thinking_tokens,
            "thoughtsTokenCount": answer.thinking_tokens,
            "totalTokenCount": answer.input_tokens + answer.output_tokens,
        },
    }


_BODIES: dict[Dialect, Callable[[WireAnswer], dict[str, Any]]] = {
    Dialect.CHAT: _chat,
    Dialect.RESPONSES: _responses,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.GOOGLE: _google,
}
