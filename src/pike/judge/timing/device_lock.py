"""The lock of one device: any number of evaluations may build and warm up, only one may time.

File locks hold across processes and vanish with their holder. One whose holders all stand still is
taken over within a minute. Does not know what is done meanwhile.
"""

import contextlib
import fcntl
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from pike.core.errors import InfraError
from pike.core.verdict.evaluation import Status
from pike.judge.refusal import Refused
from pike.judge.timing.contention import cpu_seconds

_SLICE_SECONDS = 1.0
"""How long a sharer works before it yields: about as long as a search times a candidate."""
_LOOK_SECONDS, _STALLED_SECONDS = 0.5, 45.0
"""How often a waiting lock looks at its holders, and when one that used no CPU has stalled. A judge
that works or waits for its child wakes up ten times a second."""
_REST_SECONDS, _FORGOTTEN_SECONDS, _EMPTY_LOOKS = 14.0, 60.0, 4
"""How long sharers have the device after a timer found it busy, when such a look no longer counts, and
how many looks at the lock in a row must find no holder until nobody is taken to share it. Sharers have
three quarters of the time, so that a candidate's 180 seconds are over after some 250."""

Pause = Callable[[], AbstractContextManager[object]]
"""Makes a context in which some processes are stopped."""


class DeviceLock:
    """The lock of one device; this object holds it at most once at a time.

    Two files make it: the holder of the *gate* is next at the *body*. A waiting timer holds the
    gate, so that later sharers queue behind it. A third one stays as long as the device is *busy*.

    Attributes:
        suspects: each tells the processes of a living candidate, which must not touch the lock.
        waited_seconds: time spent waiting so far; it never counts against a candidate.
    """

    def __init__(
        self,
        device: str,
        while_waiting: Pause = nullcontext,
        folder: Path | None = None,
        slice_seconds: float = _SLICE_SECONDS,
        stalled_seconds: float = _STALLED_SECONDS,
        rest_seconds: float = _REST_SECONDS,
    ) -> None:
        """A lock that is not held yet.

        Args:
            device: its name on this machine.
            while_waiting: entered while this lock waits, because the holder may be timing.
            folder: where the lock files lie, by default one folder for each user of the machine.
            slice_seconds: how long a sharer works before it yields; infinite for never.
            stalled_seconds: how long a holder uses no CPU before its lock is taken over.
            rest_seconds: how long timers leave a device to sharers after one of them found it busy.
        """
        where = folder or Path(tempfile.gettempdir()) / f"pike-locks-{os.getuid()}"
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "-", device)
        self._gate, self._body, self._busy = (where / f"{name}.{kind}" for kind in ("gate", "body", "busy"))
        self._while_waiting, self._slice_seconds = while_waiting, slice_seconds
        self._stalled_seconds, self._rest_seconds = stalled_seconds, rest_seconds
        self.suspects: list[Callable[[], set[int]]] = []
        self._file: IO[str] | None = None
        self._is_shared, self._since = False, 0.0
        self.waited_seconds = 0.0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the device together with other sharers.

        Raises:
            Refused: the candidate holds the lock.
        """
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def shared_unless_refused(self) -> Iterator[None]:
        """Hold the device together with other sharers, or not at all if the candidate holds the lock."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(Refused):
                held.enter_context(self.shared())
            yield

    @contextmanager
    def exclusive(self, is_quiet: Callable[[], bool] | None = None, patience_seconds: float = 600.0) -> Iterator[bool]:
        """Hold the device alone, and tell whether it is quiet.

        A kernel that never ends runs on while its process is stopped. So that its candidate's time runs out,
        sharers have the device again between the looks of timers. Where nobody shares it, two looks decide.

        Args:
            is_quiet: whether no kernel of another process runs; asked while the device is held. Without it
                the device counts as quiet once no other timer has found it busy within the rest.
            patience_seconds: how long one timer, and all timers together, wait for a quiet device. One
                that stays busy for longer is not waited for again until it was quiet once.

        Raises:
            Refused: the candidate holds the lock.
            InfraError: this process stood still, and another one took the lock over.
        """
        started, waited, empty = time.monotonic(), self.waited_seconds, 0
        while True:
            while self._is_resting(patience_seconds):
                time.sleep(min(_LOOK_SECONDS, self._rest_seconds))
                empty = 0 if _holders(self._body) else empty + 1  # one that yields lets go for a moment
                patience_seconds *= empty < _EMPTY_LOOKS and time.monotonic() - started < patience_seconds
            with self._held(fcntl.LOCK_EX) as body:
                if not self._is_resting(patience_seconds):  # else another timer has looked meanwhile
                    quiet = is_quiet is None or self._noted(is_quiet())
                    if quiet or not self._is_resting(patience_seconds):
                        self.waited_seconds = waited + time.monotonic() - started
                        yield quiet
                        if not _is_at(body, self._body):
                            raise InfraError("this judge stood still while it timed, and another one took the device")
                        return

    def _is_resting(self, patience_seconds: float) -> bool:
        """Whether a timer found the device busy a moment ago and there is patience left."""
        with contextlib.suppress(FileNotFoundError):
            seen, now = self._busy.stat(), time.time()
            return abs(now - seen.st_atime) < self._rest_seconds and abs(now - seen.st_mtime) < patience_seconds
        return False

    def _noted(self, quiet: bool) -> bool:
        """The same look, kept: a file's times of change and of access say since when it was busy, and when last."""
        if quiet:
            self._busy.unlink(missing_ok=True)
        elif self._busy.exists() and abs(time.time() - self._busy.stat().st_atime) < _FORGOTTEN_SECONDS:
            os.utime(self._busy, (time.time(), self._busy.stat().st_mtime))
        else:
            self._busy.touch()
        return quiet

    def yield_device(self, pause: Pause) -> float:
        """Let waiting timers go first, if this sharer has had its slice.

        Args:
            pause: entered until the device is held again.

        Returns:
            The seconds until the device was held again, 0 if it was not yielded.
        """
        if self._file is None or not self._is_shared or not self._is_wanted():
            return 0.0
        before = self.waited_seconds
        with pause():
            self._file.close()
            self._file = self._take(fcntl.LOCK_SH)
        return self.waited_seconds - before

    def _is_wanted(self) -> bool:
        if time.monotonic() - self._since < self._slice_seconds:
            return False
        gate = _at_once(self._gate, fcntl.LOCK_SH)
        if gate:
            gate.close()
        return gate is None

    @contextmanager
    def _held(self, kind: int) -> Iterator[IO[str]]:
        self._file, self._is_shared = self._take(kind), kind == fcntl.LOCK_SH
        try:
            yield self._file
        finally:
            self._file.close()
            self._file = None

    def _take(self, kind: int) -> IO[str]:
        """The body, held."""
        started = time.monotonic()
        self._require_honesty()
        gate = _at_once(self._gate, fcntl.LOCK_EX)
        body = _at_once(self._body, kind) if gate else None
        try:
            if not body:
                with self._while_waiting():
                    gate = gate or self._waited_for(self._gate, fcntl.LOCK_EX)
                    body = self._waited_for(self._body, kind)
        finally:
            if gate:
                gate.close()
        self._since = time.monotonic()
        self.waited_seconds += self._since - started
        return body

    def _waited_for(self, path: Path, kind: int) -> IO[str]:
        """A file, locked; one that only stalled processes hold is replaced by a new one."""
        used: dict[int, tuple[float, float]] = {}
        while True:
            waiting = _Waiting(path, kind)
            try:
                waiting.join(_LOOK_SECONDS)
                while waiting.is_alive() and _is_at(waiting.file, path):
                    self._require_honesty()
                    if self._are_stalled(_holders(path), used):
                        _drop(waiting.file, path)
                    waiting.join(_LOOK_SECONDS)
                if not waiting.is_alive() and _is_at(waiting.file, path):
                    return waiting.take()
            finally:
                waiting.give_up()

    def _require_honesty(self) -> None:
        """Refuse a candidate that holds either file; while one waits for the gate, another waits for the body."""
        suspects, paths = {pid for pids in self.suspects for pid in pids()}, (self._gate, self._body)
        if any(suspects & _holders(path) or any(_has_open(pid, path) for pid in suspects) for path in paths):
            raise Refused(Status.SANDBOX_VIOLATION, "the candidate holds the lock file of the device")

    def _are_stalled(self, holders: set[int], used: dict[int, tuple[float, float]]) -> bool:
        """Whether no holder used any CPU for long; `used` holds (CPU seconds, since when)."""
        now = time.monotonic()
        for pid in holders:
            try:
                seconds = cpu_seconds(pid)
            except OSError:  # it is gone, and something else keeps its file open
                seconds = -1.0
            if used.get(pid, (None, 0.0))[0] != seconds:
                used[pid] = seconds, now
        return bool(holders) and all(now - used[pid][1] > self._stalled_seconds for pid in holders)


class _Waiting(threading.Thread):
    """Waits for the lock of a file. In a thread, because such a wait has no limit."""

    def __init__(self, path: Path, kind: int) -> None:
        super().__init__(daemon=True)
        self.file = open(path, "a")  # noqa: SIM115 - closed by `give_up` or by who takes it
        self._kind, self._decided = kind, threading.Lock()
        self._has_it = self._is_unwanted = False
        self.start()

    def run(self) -> None:
        """Wait; what is unwanted by then is given back at once."""
        fcntl.flock(self.file, self._kind)
        with self._decided:
            self._has_it = True
            if self._is_unwanted:
                self.file.close()

    def take(self) -> IO[str]:
        """The file, which is locked by now; from here on the caller's to close."""
        self._has_it = False
        return self.file

    def give_up(self) -> None:
        """Give back what nobody took, now or as soon as it comes."""
        with self._decided:
            self._is_unwanted = True
            if self._has_it:
                self.file.close()


def _at_once(path: Path, kind: int) -> IO[str] | None:
    """A file, locked, if that could be had without waiting."""
    file = open(path, "a")  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _drop(file: IO[str], path: Path) -> None:
    """Take a file away from its path unless another process has done so; one at a time."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _is_at(file, path):
            path.unlink()
    finally:
        os.close(folder)


def _holders(path: Path) -> set[int]:
    """The processes that hold a lock of a file, as far as this process may know them."""
    with contextlib.suppress(FileNotFoundError):
        inode = f":{path.stat().st_ino}"
        rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
        return {int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(inode)}
    return set()


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open; a lock may have been inherited."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(entry.path), os.stat(path)):
                    return True
    return False
