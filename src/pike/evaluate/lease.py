"""Leases on a device: any number of evaluations may build and warm up, only one may time.

Knows file locks that hold across processes and runs on one machine and vanish with their holder. Does not know what
is done under a lease. A waiting timer holds the gate, so later sharers queue behind it; a sharer that may take minutes
asks now and then whether it is `wanted` elsewhere, and makes way. Making way hands nothing back that lies in the
device's memory: whoever needs all of it waits until no evaluation is going on, and later ones queue behind it. Whoever
found no memory first tries again beside the others, one such evaluation at a time.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SLICE_SECONDS = 1.0
"""How long a sharer works before it makes way: about as long as a timer of a search holds the device, so that neither
starves the other."""


@dataclass(frozen=True, slots=True)
class _Door:
    """Two lock files through which any number come together or one alone: who holds the gate is next at the body."""

    gate: Path
    body: Path

    def enter(self, body: IO[str], kind: int, hush: Callable[[bool], None]) -> None:
        """Lock the opened body, behind whoever came before; `hush` is told while somebody is waited for."""
        with open(self.gate, "a") as gate:
            if not (_at_once(gate, fcntl.LOCK_EX) and _at_once(body, kind)):
                hush(True)
                try:
                    fcntl.flock(gate, fcntl.LOCK_EX)
                    fcntl.flock(body, kind)
                finally:
                    hush(False)

    def is_wanted(self) -> bool:
        """Whether somebody waits at the gate; nobody does where there is none."""
        with suppress(FileNotFoundError), open(self.gate) as gate:
            return not _at_once(gate, fcntl.LOCK_SH)
        return False


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
        self._work = _Door(place / f"{name}.gate", place / f"{name}.body")
        self._room = _Door(place / f"{name}-room.gate", place / f"{name}-room.body")
        self._turn = _Door(place / f"{name}-turn.gate", place / f"{name}-turn.body")
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
        with open(self._work.body, "a") as body:
            self._take(self._work, body, fcntl.LOCK_SH, self._hush)
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
        with open(self._work.body, "a") as body:
            self._take(self._work, body, fcntl.LOCK_EX, self._hush)
            yield

    @contextmanager
    def present(self, make_room: Callable[[], None]) -> Iterator[None]:
        """Be at work on the device for a whole evaluation, in which its memory is used, together with others.

        Args:
            make_room: called before somebody is waited for, who may need the memory that was kept since the last time.
        """

        def hush(still: bool) -> None:
            self._hush(still)
            if still:
                make_room()

        with open(self._room.body, "a") as body:
            self._take(self._room, body, fcntl.LOCK_SH, hush)
            yield

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Be the only one that waits for memory, or tries again with it; nobody else at work is kept from anything."""
        with open(self._turn.body, "a") as body:
            self._take(self._turn, body, fcntl.LOCK_EX, self._hush)
            yield

    @contextmanager
    def throughout(self) -> Iterator[None]:
        """Hold the device alone for a whole evaluation, once nobody is present: what it takes inside is granted at
        once, and all memory is there for it."""
        with open(self._room.body, "a") as body:
            self._take(self._room, body, fcntl.LOCK_EX, self._hush)
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
        return self._work.is_wanted()

    def deserted(self) -> bool:
        """Whether nobody is present, this object included."""
        with open(self._room.body, "a") as body:
            return _at_once(body, fcntl.LOCK_EX)

    def room_wanted(self) -> bool:
        """Whether somebody waits until nobody is present: what lies in the device's memory is in the way."""
        return self._room.is_wanted()

    def make_way(self) -> float:
        """Let go of a shared lease and take it again behind whoever waits; returns the seconds until then."""
        assert self._shared is not None, "only a sharer makes way"
        before = self.waited_seconds
        fcntl.flock(self._shared, fcntl.LOCK_UN)
        self._take(self._work, self._shared, fcntl.LOCK_SH, self._hush)
        return self.waited_seconds - before

    def _take(self, door: _Door, body: IO[str], kind: int, hush: Callable[[bool], None]) -> None:
        started = time.monotonic()
        door.enter(body, kind, hush)
        self._since = time.monotonic()
        self.waited_seconds += self._since - started


def _at_once(file: IO[str], kind: int) -> bool:
    """Whether a lock could be had without waiting."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
