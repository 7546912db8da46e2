"""Leases on a device: any number of evaluations may build and warm up, only one may time.

Knows file locks that hold across processes and runs on one machine and vanish with their holder. Does not know what
is done under a lease. A waiting timer is not starved: it holds the gate, so later sharers queue behind it.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Lease:
    """The lease of one device on this machine."""

    def __init__(self, device: str, folder: Path | None = None) -> None:
        place = folder or Path(tempfile.gettempdir()) / f"pike-leases-{os.getuid()}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "-", device)
        self._gate = place / f"{name}.gate"
        self._body = place / f"{name}.body"
        self.waited_seconds = 0.0
        """Time spent waiting so far; never counted against a candidate."""

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the device together with other sharers."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        started = time.monotonic()
        with open(self._body, "a") as body:
            with open(self._gate, "a") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)
                fcntl.flock(body, kind)
            self.waited_seconds += time.monotonic() - started
            yield
