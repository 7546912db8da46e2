"""Silence while a model is captured: torch.export prints the graph it had so far where it fails, which is no news here.

Knows standard error and one of torch's loggers. Only the calling thread is silenced, so that whoever shows progress in
another one is not.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

_TALKATIVE = logging.getLogger("torch.fx.experimental.symbolic_shapes")


class _Others:
    """Standard error for every thread but one."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._silenced = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Pass text on unless the silenced thread wrote it."""
        return len(text) if threading.get_ident() == self._silenced else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Nothing that this thread prints on standard error is shown."""
    own = threading.get_ident()
    unless_own = lambda record: record.thread != own  # noqa: E731
    _TALKATIVE.addFilter(unless_own)
    others: Any = _Others(sys.stderr)
    try:
        with contextlib.redirect_stderr(others):
            yield
    finally:
        _TALKATIVE.removeFilter(unless_own)
