"""The exception tree of the whole project.

PikeError
├── UserError            what the user gave cannot be used: one sentence with the cure, exit code 2
└── BoundaryError        something outside the project failed: retried or recorded, exit code 3
    ├── ProviderError    an LLM provider (transient unless said otherwise)
    ├── InfraError       the judge, the sandbox or the device, never the candidate
    └── StoreError       the journal or its disk

Every other exception is a bug and is never caught. Knows the names of failures. Does not know how
they are shown (the command line does) or recorded (the engine does).
"""

from collections.abc import Iterator
from contextlib import contextmanager


class PikeError(Exception):
    """Root of all errors that PIKE raises on purpose."""


class UserError(PikeError):
    """Bad input: the message is one clear sentence that names the input and the cure."""


class BoundaryError(PikeError):
    """A failure of the world outside the project."""


class ProviderError(BoundaryError):
    """An LLM provider failed.

    Attributes:
        transient: True where another attempt can help (429, 5xx, timeouts, dropped connections).
        retry_after_seconds: how long the provider asked us to wait, None if it did not say.
    """

    def __init__(self, message: str, *, transient: bool, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after_seconds = retry_after_seconds


class InfraError(BoundaryError):
    """The judge, its sandbox or its device failed; says nothing about the candidate."""


class StoreError(BoundaryError):
    """The journal cannot be read or written (disk full, locked by another process, damaged)."""


def reason_of(error: Exception) -> str:
    """What the system said, without the number and the path that an `OSError` repeats."""
    return getattr(error, "strerror", "") or str(error)


@contextmanager
def saying(kind: type[PikeError], what: str, cure: str = "") -> Iterator[None]:
    """Where the system refuses something, or a file is no text, say what, why, and the cure."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise kind(f"{what}: {reason_of(error)}" + (f"; {cure}" if cure else "")) from error


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Where a package is missing, say what needs it and name the extra that brings it."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "pike":
            raise
        raise UserError(f"{what} needs {error.name or extra}: pip install 'pike-torch[{extra}]'") from None
