"""Leases on a device: any number of evaluations may build and warm up, only one may time.

Knows file locks that hold across processes and runs on one machine and vanish with their holder. Does not know what
is done under a lease. A waiting timer holds the gate, so later sharers queue behind it; a sharer that may take minutes
asks now and then whether it is `wanted` elsewhere, and makes way.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_SLICE_SECONDS = 1.0
"""How long a sharer works before it makes way: about as long as a timer of a search holds the device, so that neither
starves the other."""


class Lease:
    """The lease of one device on this machine, held at most once at a time by this object."""

    def __init__(
        self, device: str, folder: Path | None = None, hush: Callable[[bool], None] = lambda _still: None
    ) -> None:
        """The lease of a device, not held yet.

        Args:
            device: its name on this machine.
            folder: where the locks lie.
            hush: told True before somebody else is waited for, and False when that is over: what may stand still
                meanwhile does, because the other may be timing.
        """
        place = folder or Path(tempfile.gettempdir()) / f"pike-leases-{os.getuid()}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "-", device)
        self._gate = place / f"{name}.gate"
        self._body = place / f"{name}.body"
        self._hush = hush
        self._shared: IO[str] | None = None
        self.alone = False
        """Whether nobody else may be at work, whatever is done now."""
        self._since = 0.0
        self.waited_seconds = 0.0
        """Time spent waiting so far; never counted against a candidate."""

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the device together with other sharers."""
        if self.alone:
            yield
            return
        with open(self._body, "a") as body:
            self._take(body, fcntl.LOCK_SH)
            self._shared = body
            try:
                yield
            finally:
                self._shared = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone."""
        if self.alone:
            yield
            return
        with open(self._body, "a") as body:
            self._take(body, fcntl.LOCK_EX)
            yield

    @contextmanager
    def throughout(self) -> Iterator[None]:
        """Hold the device alone for a whole evaluation: what it takes inside is granted at once."""
        with self.exclusive():
            self.alone = True
            try:
                yield
            finally:
                self.alone = False

    def wanted(self) -> bool:
        """Whether this sharer has had its slice and somebody waits at the gate."""
        if self._shared is None or time.monotonic() - self._since < _SLICE_SECONDS:
            return False
        with open(self._gate, "a") as gate:
            return not _at_once(gate, fcntl.LOCK_SH)

    def make_way(self) -> float:
        """Let go of a shared lease and take it again behind whoever waits; returns the seconds until then."""
        assert self._shared is not None, "only a sharer makes way"
        before = self.waited_seconds
        fcntl.flock(self._shared, fcntl.LOCK_UN)
        self._take(self._shared, fcntl.LOCK_SH)
        return self.waited_seconds - before

    def _take(self, body: IO[str], kind: int) -> None:
        started = time.monotonic()
        with open(self._gate, "a") as gate:
            if not (_at_once(gate, fcntl.LOCK_EX) and _at_once(body, kind)):
                self._hush(True)
                try:
                    fcntl.flock(gate, fcntl.LOCK_EX)
                    fcntl.flock(body, kind)
                finally:
                    self._hush(False)
        self._since = time.monotonic()
        self.waited_seconds += self._since - started


def _at_once(file: IO[str], kind: int) -> bool:
    """Whether a lock could be had without waiting."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
