"""One capture at a time, in silence, and under a limit of time.

torch.export sets switches of the whole process while it runs the model, so two threads must not
capture at once. It also prints the graph that it had so far where it fails. Knows a lock, standard
error, one of torch's loggers and an alarm. Does not know graphs.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

_LOCK = threading.RLock()
_LOGGER = logging.getLogger("torch.fx.experimental.symbolic_shapes")


class _OtherThreads:
    """Standard error for every thread but one."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._silenced = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Pass text on unless the silenced thread wrote it."""
        return len(text) if threading.get_ident() == self._silenced else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` in the main thread after so many seconds; None for no limit.

    Only for a process of PIKE's own: a process has one alarm.
    """

    def late(*_signal: object) -> None:
        raise TimeoutError(f"it took longer than {seconds:g} s")

    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def exclusively() -> Iterator[None]:
    """Hold the lock of this process's captures, and hide what this thread prints on stderr.

    Other threads go on printing, so that progress stays visible.
    """
    own = threading.get_ident()
    unless_own = lambda record: record.thread != own  # noqa: E731
    with _LOCK:
        _LOGGER.addFilter(unless_own)
        others: Any = _OtherThreads(sys.stderr)
        try:
            with contextlib.redirect_stderr(others):
                yield
        finally:
            _LOGGER.removeFilter(unless_own)
