"""What went wrong with a call, in our words.

Knows how pydantic-ai names failures and which of them another attempt can help. Messages name the model and the
cure, never a key: text from a provider is redacted, and nothing that came with a refused key is repeated.
"""

from __future__ import annotations

from pike.core.errors import PikeError, ProviderError, UserError
from pike.llm.redact import redact
from pike.llm.vendors import Endpoint

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""4xx that another attempt can help: timeout, lock conflict, too early, rate limit."""


def from_exception(target: Endpoint, error: Exception) -> PikeError:
    """The error of ours for what pydantic-ai raised."""
    from pydantic_ai import exceptions as raised

    if isinstance(error, raised.ModelQuotaExceededError):
        return no_credit(target)
    if isinstance(error, raised.ModelAuthenticationError):
        return key_refused(target)
    if isinstance(error, raised.ModelNotFoundError):
        return unknown_model(target, getattr(error, "suggested_model_id", None))
    if isinstance(error, raised.ModelContextWindowExceededError):
        return ProviderError(f"The prompt is longer than '{target.name}' can read", transient=False)
    if isinstance(error, raised.ModelRequestTimeout | raised.ModelTimeoutError):
        return ProviderError(f"'{target.name}' did not answer in time", transient=True)
    if isinstance(error, raised.ModelConnectionError):
        return ProviderError(f"The connection to '{target.name}' failed: {redact(str(error))}", transient=True)
    if isinstance(error, raised.ModelHTTPError):
        return from_status(target, error.status_code, error.body, error.retry_after)
    if isinstance(error, raised.ContentFilterError):
        return ProviderError(f"'{target.name}' refused the prompt by its content rules", transient=False)
    if isinstance(error, raised.UserError):
        return UserError(f"'{target.name}' cannot be asked: {redact(str(error))}")
    return unreadable(target, error)


def from_status(target: Endpoint, status: int, body: object, retry_after_seconds: float | None = None) -> PikeError:
    """The error of ours for an HTTP status that is not a success; `body` is text or decoded JSON."""
    if status in (401, 403):
        return key_refused(target)
    if status == 404:
        return unknown_model(target)
    if status == 402:
        return no_credit(target)
    return ProviderError(
        f"'{target.name}' answered with HTTP status {status}: {redact(_said(body)) or 'no explanation'}",
        transient=status in TRANSIENT_STATUSES or status >= 500,
        retry_after_seconds=retry_after_seconds,
    )


def key_refused(target: Endpoint) -> UserError:
    """The provider does not accept the key, or the key may not use the model."""
    return UserError(
        f"{_who(target)} refused the API key for '{target.name}'; set {target.key_variable} to a valid key "
        "that may use this model"
    )


def unknown_model(target: Endpoint, suggestion: str | None = None) -> UserError:
    """The provider has no such model."""
    hint = f"; did you mean {suggestion.partition(':')[2] or suggestion!r}?" if suggestion else "; check its spelling"
    if target.compatible:
        hint = "; check the model's name and the address, which usually ends in /v1"
    return UserError(f"{_who(target)} has no model '{target.model}' ('{target.name}'){hint}")


def no_credit(target: Endpoint) -> UserError:
    """The account behind the key is out of money or quota, which no waiting of ours will mend."""
    return UserError(
        f"{_who(target)} says that the account of {target.key_variable} has no credit or quota left for "
        f"'{target.name}'; top it up, then resume the run"
    )


def unreadable(target: Endpoint, error: Exception) -> ProviderError:
    """The provider sent something that is no answer; a broken proxy in between is the usual cause."""
    detail = f"{type(error).__name__}: {redact(str(error))}"
    cure = "see that no proxy answers in its place"
    cure += " and that the address is right, which usually ends in /v1" if target.compatible else ""
    return ProviderError(f"'{target.name}' sent an answer that cannot be read ({detail}); {cure}", transient=True)


def _said(body: object) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else None
    return message if isinstance(message, str) else str(body or "")


def _who(target: Endpoint) -> str:
    return f"The server at {target.base_url}" if target.compatible else target.vendor.label
