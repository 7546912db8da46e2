"""The bodies that providers send, as far as our clients read them.

Knows one normal answer and the errors of OpenAI Chat Completions, OpenAI Responses, Anthropic
Messages and Google generateContent. Does not know sockets.
"""

import json
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


class Fault(StrEnum):
    """How a reply goes wrong on its way."""

    NONE = "none"
    HANG = "hang"
    """Nothing is sent until the server closes."""
    DROP = "drop"
    """The connection is reset before the status line."""
    DROP_MID_BODY = "drop-mid-body"
    """The connection is reset after half of the body, or of the events."""
    SILENT_MID_BODY = "silent-mid-body"
    """Nothing is sent after half of the events until the server closes."""
    CLOSE_MID_BODY = "close-mid-body"
    """The stream ends after half of the events as if it were complete."""
    MALFORMED_JSON = "malformed-json"
    """The body is announced as JSON and is none."""
    NOT_JSON = "not-json"
    """The body is an HTML page with status 200, as proxies send."""
    EMPTY_CHOICES = "empty-choices"
    """Valid JSON without an answer in it."""
    NO_USAGE = "no-usage"
    """A normal answer that reports no tokens."""


@dataclass(frozen=True, slots=True)
class FakeReply:
    """What the server does with one request for an reply.

    Attributes:
        status: HTTP status; from 400 an error body is sent.
        finish: `stop`, `length` or `refused`.
        output_tokens: reported answer tokens, thinking included.
        cached_tokens: the part of `input_tokens` that came from a cache.
        usd: the price that OpenRouter reports.
        code: the provider's error code, for example `context_length_exceeded`.
        message: the provider's error message; `{key}` is replaced by the key that was sent.
        retry_after: value of the `Retry-After` header.
        pieces: parts in which a streamed answer comes.
        pause_seconds: the pause after each of them.
    """

    text: str = "hello"
    status: int = 200
    finish: str = "stop"
    input_tokens: int = 11
    output_tokens: int = 7
    thinking_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    code: str = ""
    message: str = "the server says no"
    retry_after: str | None = None
    delay_seconds: float = 0.0
    fault: Fault = Fault.NONE
    pieces: int = 1
    pause_seconds: float = 0.0


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


def answer_body(dialect: Dialect, reply: FakeReply, model: str) -> dict[str, Any]:
    """The body of a successful response of `model`."""
    if dialect is Dialect.UNKNOWN:
        return {}
    body = _BODIES[dialect](reply, model)
    if reply.fault is Fault.NO_USAGE:
        body.pop("usage", None)
        body.pop("usageMetadata", None)
    if reply.fault is Fault.EMPTY_CHOICES:
        body |= {name: [] for name in ("choices", "output", "content", "candidates") if name in body}
    return body


def error_body(dialect: Dialect, status: int, code: str, message: str) -> dict[str, Any]:
    """The body of a failed response."""
    if dialect is Dialect.ANTHROPIC:
        return {"type": "error", "error": {"type": code or "api_error", "message": message}}
    if dialect is Dialect.GOOGLE:
        return {"error": {"code": status, "message": message, "status": code or "INTERNAL"}}
    return {"error": {"message": message, "type": code or "server_error", "param": None, "code": code or None}}


def _chat(reply: FakeReply, model: str) -> dict[str, Any]:
    finish = {"length": "length", "refused": "content_filter"}.get(reply.finish, "stop")
    usage: dict[str, Any] = {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.thinking_tokens},
    }
    if reply.usd is not None:
        usage["cost"] = reply.usd
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "provider": "fake",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": reply.text}}],
        "usage": usage,
    }


def chat_stream(reply: FakeReply, model: str) -> list[str]:
    """The events of a streamed Chat Completions answer; the last three end it."""
    body = _chat(reply, model) | {"object": "chat.completion.chunk"}
    usage, choice = body.pop("usage"), body["choices"][0]
    size = -(-len(reply.text) // reply.pieces) or 1
    parts = [reply.text[at : at + size] for at in range(0, len(reply.text), size)]
    deltas: list[tuple[dict[str, str], Any]] = [({"role": "assistant", "content": part}, None) for part in parts]
    chunks = [
        body | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in [*deltas, ({}, choice["finish_reason"])]
    ]
    if reply.fault is Fault.EMPTY_CHOICES:
        chunks = []
    if reply.fault is not Fault.NO_USAGE:
        chunks.append(body | {"choices": [], "usage": usage})
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


def _responses(reply: FakeReply, model: str) -> dict[str, Any]:
    reason = {"length": "max_output_tokens", "refused": "content_filter"}.get(reply.finish)
    content = {"type": "output_text", "text": reply.text, "annotations": []}
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "model": model,
        "output": [
            {"type": "message", "id": "msg_fake", "role": "assistant", "status": "completed", "content": [content]}
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.thinking_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _anthropic(reply: FakeReply, model: str) -> dict[str, Any]:
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": reply.text}],
        "stop_reason": {"length": "max_tokens", "refused": "refusal"}.get(reply.finish, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens - reply.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.cached_tokens,
            "output_tokens": reply.output_tokens,
        },
    }


def _google(reply: FakeReply, model: str) -> dict[str, Any]:
    return {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": reply.text}]},
                "finishReason": {"length": "MAX_TOKENS", "refused": "SAFETY"}.get(reply.finish, "STOP"),
            }
        ],
        "modelVersion": model,
        "usageMetadata": {
            "promptTokenCount": reply.input_tokens,
            "cachedContentTokenCount": reply.cached_tokens,
            "candidatesTokenCount": reply.output_tokens - reply.thinking_tokens,
            "thoughtsTokenCount": reply.thinking_tokens,
            "totalTokenCount": reply.input_tokens + reply.output_tokens,
        },
    }


_BODIES: dict[Dialect, Callable[[FakeReply, str], dict[str, Any]]] = {
    Dialect.CHAT: _chat,
    Dialect.RESPONSES: _responses,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.GOOGLE: _google,
}
