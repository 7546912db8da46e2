"""A child's output: all of it is read, so that the child never blocks; head and tail are kept.

Knows streams and how much of them is kept. Does not know what the output means.
"""

import contextlib
import os
import threading
from typing import IO

_HEAD_BYTES = 4_000
_TAIL_BYTES = 10_000
_END_SECONDS = 1.0


class OutputTail:
    """The head and the tail of one stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._head, self._tail, self._lost = stream, b"", b"", 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def text(self, wait_seconds: float = 0.05) -> str:
        """The output so far; waits shortly, because the last lines may still be in the pipe."""
        self._thread.join(wait_seconds)
        gap = f"\n[... {self._lost} bytes left out ...]\n".encode() if self._lost else b""
        return (self._head + gap + self._tail).decode(errors="replace")

    def _drain(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._stream.fileno(), 65536):
                room = _HEAD_BYTES - len(self._head)
                self._head += part[: max(room, 0)]
                kept = self._tail + part[max(room, 0) :]
                self._lost += max(len(kept) - _TAIL_BYTES, 0)
                self._tail = kept[-_TAIL_BYTES:]

    def close(self) -> None:
        """Give the stream back; what was written stays readable."""
        self._thread.join(_END_SECONDS)
        self._stream.close()
