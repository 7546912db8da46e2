"""The device lock: sharers overlap, a timer is alone, a long sharer yields, a killed holder leaves nothing."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from pike.core.errors import InfraError
from pike.core.verdict.evaluation import Status
from pike.judge.refusal import Refused
from pike.judge.timing.device_lock import DeviceLock

SECONDS = 30.0
"""Nothing here takes as long, however busy the machine is."""


class Pauses:
    """Counts the contexts that are entered and left."""

    def __init__(self) -> None:
        self.entered, self.left = threading.Event(), threading.Event()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.entered.set()
        yield
        self.left.set()


class Holder(threading.Thread):
    """Takes one kind of lock and holds it until it is told to let go."""

    def __init__(self, take: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._take, self.has, self.leave = take, threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self._take():
            self.has.set()
            assert self.leave.wait(SECONDS)

    def end(self) -> None:
        self.leave.set()
        self.join()


@pytest.fixture
def lock(tmp_path: Path) -> Callable[..., DeviceLock]:
    """A lock of the same device for each call."""
    return lambda **options: DeviceLock("cpu", folder=tmp_path, **options)


def test_sharers_overlap(lock: Callable[..., DeviceLock]) -> None:
    with lock().shared(), lock().shared():
        pass


@pytest.mark.parametrize(("first", "second"), [("shared", "exclusive"), ("exclusive", "shared"), ("exclusive",) * 2])
def test_a_timer_is_alone_and_a_waiting_lock_pauses(lock: Callable[..., DeviceLock], first: str, second: str) -> None:
    pauses = Pauses()
    waiting = lock(while_waiting=pauses)
    holder = Holder(getattr(lock(), first))
    assert holder.has.wait(SECONDS)
    other = Holder(getattr(waiting, second))
    assert pauses.entered.wait(SECONDS)
    assert not other.has.wait(0.1)
    holder.end()
    assert other.has.wait(SECONDS)
    assert pauses.left.is_set()
    other.end()
    assert waiting.waited_seconds >= 0.1


def test_what_is_free_is_taken_without_a_pause(lock: Callable[..., DeviceLock]) -> None:
    pauses = Pauses()
    with lock(while_waiting=pauses).exclusive():
        assert not pauses.entered.is_set()


def test_later_sharers_queue_behind_a_waiting_timer(lock: Callable[..., DeviceLock]) -> None:
    waits, queues = Pauses(), Pauses()
    first = Holder(lock().shared)
    assert first.has.wait(SECONDS)
    timer = Holder(lock(while_waiting=waits).exclusive)
    assert waits.entered.wait(SECONDS)
    later = Holder(lock(while_waiting=queues).shared)
    assert queues.entered.wait(SECONDS)
    assert not later.has.wait(0.1)
    first.end()
    assert timer.has.wait(SECONDS) and not later.has.is_set()
    timer.end()
    assert later.has.wait(SECONDS)
    later.end()


def test_a_sharer_yields_neither_without_a_timer_nor_within_its_slice(lock: Callable[..., DeviceLock]) -> None:
    waits, paused = Pauses(), Pauses()
    ready, fresh = lock(slice_seconds=0.0), lock(slice_seconds=60.0)
    with ready.shared(), fresh.shared():
        assert ready.yield_device(paused) == 0.0, "no timer waits"
        timer = Holder(lock(while_waiting=waits).exclusive)
        assert waits.entered.wait(SECONDS)
        assert fresh.yield_device(paused) == 0.0, "its slice is not over"
    assert not paused.entered.is_set()
    timer.end()


def test_a_sharer_yields_to_a_timer_and_gets_the_device_back(lock: Callable[..., DeviceLock]) -> None:
    waits, paused = Pauses(), Pauses()
    sharer = lock(slice_seconds=0.0)
    with sharer.shared():
        timer = Holder(lock(while_waiting=waits).exclusive)
        assert waits.entered.wait(SECONDS)
        ends = threading.Timer(0.2, timer.end)
        ends.start()
        assert sharer.yield_device(paused) >= 0.1
        assert timer.has.is_set() and timer.leave.is_set()
        assert paused.left.is_set()
        ends.join()


def test_only_a_sharer_yields(lock: Callable[..., DeviceLock]) -> None:
    mine, paused, waits = lock(slice_seconds=0.0), Pauses(), Pauses()
    assert mine.yield_device(paused) == 0.0
    with mine.exclusive():
        other = Holder(lock(while_waiting=waits).shared)
        assert waits.entered.wait(SECONDS)
        assert mine.yield_device(paused) == 0.0
    other.end()
    assert not paused.entered.is_set()


def test_a_timer_leaves_a_busy_device_to_sharers_until_it_is_quiet(lock: Callable[..., DeviceLock]) -> None:
    shared, asked = threading.Event(), []

    def is_quiet() -> bool:
        asked.append(shared.is_set())
        return shared.is_set()

    timer = lock(rest_seconds=0.3)
    sharer = Holder(lock().shared)
    assert sharer.has.wait(SECONDS)
    threading.Timer(0.2, sharer.end).start()

    def share_between_two_looks() -> None:
        while not asked:
            time.sleep(0.01)
        with lock().shared():
            shared.set()

    other = threading.Thread(target=share_between_two_looks)
    other.start()
    with timer.exclusive(is_quiet, SECONDS) as quiet:
        assert quiet and asked[0] is False and asked[-1] is True
    other.join()
    with lock(rest_seconds=SECONDS).exclusive(lambda: True, SECONDS) as quiet:
        assert quiet, "what was quiet once is not rested from"


def sharing(lock: Callable[..., DeviceLock], stop: threading.Event) -> threading.Thread:
    """A judge whose candidate never ends: it holds the device and yields it to every timer."""

    def share() -> None:
        mine = lock(slice_seconds=0.0)
        with mine.shared():
            while not stop.wait(0.01):
                mine.yield_device(nullcontext)

    sharer = threading.Thread(target=share)
    sharer.start()
    return sharer


def test_timers_take_turns_in_looking_at_a_busy_device(lock: Callable[..., DeviceLock]) -> None:
    looks: list[float] = []

    def is_quiet() -> bool:
        looks.append(time.monotonic())
        return len(looks) > 3

    stop = threading.Event()
    sharer = sharing(lock, stop)
    timers = [Holder(lambda: lock(rest_seconds=0.2).exclusive(is_quiet, SECONDS)) for _ in range(3)]
    for timer in timers:
        timer.leave.set()
    for timer in timers:
        timer.join()
        assert timer.has.is_set()
    stop.set()
    sharer.join()
    first = [later - earlier for earlier, later in itertools.pairwise(looks[:4])]
    assert min(first) >= 0.19, "nobody looks while another one rests"


def test_a_device_that_never_becomes_quiet_is_waited_for_once(lock: Callable[..., DeviceLock]) -> None:
    stop, looks = threading.Event(), []
    sharer, timer = sharing(lock, stop), lock(rest_seconds=0.1)
    started = time.monotonic()
    with timer.exclusive(lambda: False, 0.5) as quiet:
        assert not quiet and time.monotonic() - started >= 0.4
    assert timer.waited_seconds >= 0.4, "no candidate pays for that"
    with lock(rest_seconds=SECONDS).exclusive(lambda: bool(looks.append(None)), 0.5) as quiet:
        assert not quiet and len(looks) == 1
    stop.set()
    sharer.join()


def test_a_device_that_nobody_shares_is_not_waited_for(lock: Callable[..., DeviceLock]) -> None:
    looks: list[None] = []
    with lock(rest_seconds=SECONDS).exclusive(lambda: bool(looks.append(None))) as quiet:
        assert not quiet and len(looks) == 2


def test_a_busy_mark_that_somebody_renews_ends_no_later_than_patience(
    lock: Callable[..., DeviceLock], tmp_path: Path
) -> None:
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(0.02):
            (tmp_path / "cpu.busy").touch()

    sharer, renewer = sharing(lock, stop), threading.Thread(target=renew)
    renewer.start()
    started = time.monotonic()
    with lock(rest_seconds=SECONDS).exclusive(lambda: False, 1.0) as quiet:
        assert not quiet and time.monotonic() - started < SECONDS / 2
    stop.set()
    renewer.join()
    sharer.join()


def test_a_clock_that_was_set_back_stops_nobody(lock: Callable[..., DeviceLock], tmp_path: Path) -> None:
    busy = tmp_path / "cpu.busy"
    busy.touch()
    os.utime(busy, (time.time() + 9999, time.time() + 9999))
    with lock(rest_seconds=SECONDS).exclusive(lambda: True) as quiet:
        assert quiet and not busy.exists()


@pytest.mark.parametrize("seconds", [-9999, -1200, 9999])
def test_a_look_of_another_day_takes_no_patience_away(
    lock: Callable[..., DeviceLock], tmp_path: Path, seconds: int
) -> None:
    busy, stop, looks = tmp_path / "cpu.busy", threading.Event(), []
    busy.touch()
    os.utime(busy, (time.time() + seconds, time.time() + seconds))
    sharer = sharing(lock, stop)
    with lock(rest_seconds=0.1).exclusive(lambda: bool(looks) or bool(looks.append(None)), SECONDS) as quiet:
        assert quiet and looks
    stop.set()
    sharer.join()


def test_a_killed_holder_leaves_no_lock(lock: Callable[..., DeviceLock], tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from pike.judge.timing.device_lock import DeviceLock\n"
        "with DeviceLock('cpu', folder=pathlib.Path(sys.argv[1])).exclusive():\n    print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        waits = Pauses()
        mine = Holder(lock(while_waiting=waits).shared)
        assert waits.entered.wait(SECONDS) and not mine.has.is_set()
        process.kill()
        assert mine.has.wait(SECONDS)
        mine.end()


HOLDING = (
    "import fcntl, sys, time\n"
    "file = open(sys.argv[1], 'a')\n"
    "fcntl.flock(file, fcntl.LOCK_EX)\n"
    "print(1, flush=True)\n"
    "while True: {what}"
)


@contextmanager
def holder_of(path: Path, what: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds one of the lock's files and does something meanwhile."""
    program = [sys.executable, "-I", "-S", "-c", HOLDING.format(what=what), str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize("name", ["cpu.gate", "cpu.body"])
def test_a_candidate_that_holds_the_lock_file_is_refused(
    lock: Callable[..., DeviceLock], tmp_path: Path, name: str
) -> None:
    mine = lock()
    with holder_of(tmp_path / name, "time.sleep(60)") as candidate:
        mine.suspects.append(lambda: {candidate.pid})
        with pytest.raises(Refused, match="holds the lock file") as refused, mine.shared():
            pass
        with mine.shared_unless_refused():
            assert candidate.poll() is None, "it is not waited for"
    assert refused.value.status is Status.SANDBOX_VIOLATION
    with mine.shared():
        pass


def test_a_judge_whose_candidate_is_refused_while_it_waits_leaves_no_lock(
    lock: Callable[..., DeviceLock], tmp_path: Path
) -> None:
    mine, suspects = lock(), set[int]()
    with holder_of(tmp_path / "cpu.body", "time.sleep(60)") as candidate:
        mine.suspects.append(lambda: suspects)
        threading.Timer(0.7, suspects.add, [candidate.pid]).start()
        with pytest.raises(Refused), mine.exclusive():
            pass
    again = Holder(lock().exclusive)  # while the exception and its frames are still alive
    assert again.has.wait(SECONDS)
    again.end()


def test_two_judges_do_not_wait_for_each_other_where_one_of_their_candidates_holds_the_lock(
    lock: Callable[..., DeviceLock], tmp_path: Path
) -> None:
    mine, waits, suspects = lock(), Pauses(), set[int]()
    mine.suspects.append(lambda: suspects)
    with holder_of(tmp_path / "cpu.body", "time.sleep(0.05)") as candidate:
        neighbour = Holder(lock(while_waiting=waits).exclusive)
        assert waits.entered.wait(SECONDS)  # it has the gate
        threading.Timer(0.7, suspects.add, [candidate.pid]).start()
        with pytest.raises(Refused), mine.exclusive():
            pass
        assert not neighbour.has.is_set()
    assert neighbour.has.wait(SECONDS)
    neighbour.end()


@pytest.mark.parametrize("name", ["cpu.gate", "cpu.body"])
def test_a_lock_whose_holder_stands_still_is_taken_over(
    lock: Callable[..., DeviceLock], tmp_path: Path, name: str
) -> None:
    with holder_of(tmp_path / name, "time.sleep(0.05)") as neighbour:
        mine = Holder(lock(stalled_seconds=0.8).exclusive)
        assert not mine.has.wait(2.0), "one that works is waited for"
        neighbour.send_signal(signal.SIGSTOP)
        assert mine.has.wait(SECONDS)
        other = Holder(lock().exclusive)
        assert not other.has.wait(0.2), "the lock that was taken over is a lock"
        mine.end()
        other.end()


def test_a_judge_that_stood_still_does_not_believe_what_it_timed(
    lock: Callable[..., DeviceLock], tmp_path: Path
) -> None:
    with pytest.raises(InfraError, match="stood still"), lock().exclusive():
        (tmp_path / "cpu.body").unlink()  # as another judge does after a minute
