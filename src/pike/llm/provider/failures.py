"""What went wrong with a call, in our words.

Knows how pydantic-ai names failures, and which of them another attempt can help. Messages name the
model and the cure, never a key: text from a provider is redacted.
"""

from pike.core.errors import PikeError, ProviderError, UserError
from pike.llm.provider.endpoint import Endpoint
from pike.llm.redact import redact

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""4xx that another attempt can help: timeout, lock conflict, too early, rate limit."""
SHORTER = "; set prompt.most_tokens to the model's window"
"""The cure for a prompt that is too long."""


def from_exception(endpoint: Endpoint, error: Exception) -> PikeError:
    """The error for an exception of pydantic-ai; one of ours stays."""
    from pydantic_ai import exceptions as raised

    if isinstance(error, PikeError):
        return error
    if isinstance(error, raised.ModelQuotaExceededError):
        return no_credit(endpoint)
    if isinstance(error, raised.ModelAuthenticationError):
        return key_refused(endpoint)
    if isinstance(error, raised.ModelNotFoundError):
        return unknown_model(endpoint, getattr(error, "suggested_model_id", None))
    if isinstance(error, raised.ModelContextWindowExceededError):
        return ProviderError(f"The prompt is longer than '{endpoint.name}' can read{SHORTER}", transient=False)
    if isinstance(error, raised.ModelRequestTimeout | raised.ModelTimeoutError):
        return ProviderError(f"'{endpoint.name}' did not answer within llm.timeout_seconds", transient=True)
    if isinstance(error, raised.ModelConnectionError):
        return ProviderError(f"The connection to '{endpoint.name}' failed: {redact(str(error))}", transient=True)
    if isinstance(error, raised.ModelHTTPError):
        return from_status(endpoint, error.status_code, error.body, error.retry_after)
    if isinstance(error, raised.ContentFilterError):
        return ProviderError(f"'{endpoint.name}' refused the prompt by its content rules", transient=False)
    if isinstance(error, raised.UserError):
        return UserError(f"'{endpoint.name}' cannot be asked: {redact(str(error))}")
    return unreadable(endpoint, error)


def from_status(endpoint: Endpoint, status: int, body: object, retry_after_seconds: float | None = None) -> PikeError:
    """The error for an HTTP status that is no success; `body` is text or decoded JSON."""
    if status in (401, 403):
        return key_refused(endpoint)
    if status == 404:
        return unknown_model(endpoint)
    if status == 402:
        return no_credit(endpoint)
    said = redact(_said(body)) or "no explanation"
    return ProviderError(
        f"'{endpoint.name}' answered with HTTP status {status}: {said}{SHORTER if 'context' in said else ''}",
        transient=status in TRANSIENT_STATUSES or status >= 500,
        retry_after_seconds=retry_after_seconds,
    )


def key_refused(endpoint: Endpoint) -> UserError:
    """The provider does not accept the key, or the key may not use the model."""
    return UserError(
        f"{_who(endpoint)} refused the API key for '{endpoint.name}'; set {endpoint.key_variable} to a valid key "
        "that may use this model"
    )


def unknown_model(endpoint: Endpoint, suggestion: str | None = None) -> UserError:
    """The provider has no such model."""
    hint = f"; did you mean {suggestion.partition(':')[2] or suggestion!r}?" if suggestion else "; check its spelling"
    if endpoint.own_server:
        hint = "; check the model's name and the address, which usually ends in /v1"
    return UserError(f"{_who(endpoint)} has no model '{endpoint.model}' ('{endpoint.name}'){hint}")


def no_credit(endpoint: Endpoint) -> UserError:
    """The account behind the key is out of money or quota, so waiting does not help."""
    return UserError(
        f"{_who(endpoint)} says that the account of {endpoint.key_variable} has no credit or quota left for "
        f"'{endpoint.name}'; top it up, then resume the run"
    )


def unreadable(endpoint: Endpoint, error: Exception) -> ProviderError:
    """The provider sent something that is no answer; the usual cause is a broken proxy."""
    detail = f"{type(error).__name__}: {redact(str(error))}"
    cure = "see that no proxy answers in its place"
    cure += " and that the address is right, which usually ends in /v1" if endpoint.own_server else ""
    return ProviderError(f"'{endpoint.name}' sent an answer that cannot be read ({detail}); {cure}", transient=True)


def _said(body: object) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else None
    return message if isinstance(message, str) else str(body or "")


def _who(endpoint: Endpoint) -> str:
    return f"The server at {endpoint.base_url}" if endpoint.own_server else endpoint.vendor.label
