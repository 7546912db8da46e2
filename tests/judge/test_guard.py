"""What holds a candidate where nothing wraps it: its rights, its files, its process group."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pike.judge.child import guard
from pike.judge.child.orders import BuildOrder
from pike.judge.child.wire import ChildReply, Command, WireViolation
from pike.judge.process import cgroup, filters
from pike.judge.process.channel import Channel
from pike.judge.process.child import Child, ChildPlan
from pike.judge.sandbox import BareProcess

PLAN = ChildPlan(BareProcess(), (), False, 8 << 30)
FORKS_ON = """
import subprocess
open("on.c", "w").write('''
#include <unistd.h>
#include <time.h>
int main() {
    daemon(1, 1);
    for (time_t end = time(0) + 30; time(0) < end;) { setsid(); if (fork() > 0) _exit(0); }
}''')
subprocess.run(["cc", "-O2", "on.c", "-o", "forks-on"], check=True)
for _ in range(6): subprocess.run(["./forks-on"])
"""


@pytest.fixture
def said_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Child, list[str]]]]:
    """`said_by(source)`: a child without a control group, and what the file that it imports prints."""
    monkeypatch.setattr(cgroup, "find", lambda: None)
    made: list[Child] = []

    def said(source: str) -> tuple[Child, list[str]]:
        child = Child(PLAN)
        made.append(child)
        path = child.folder / "tries.py"
        path.write_text(source)
        child.send(Command.BUILD, BuildOrder(str(path), "cpu", 1))
        assert child.receive(time.monotonic() + 60).reply is ChildReply.OK, child.log()
        return child, [line for line in child.log().splitlines() if not line.startswith("---")]

    yield said
    for child in made:
        child.kill()


def test_root_keeps_no_right_but_to_read(said_by: Callable[..., tuple[Child, list[str]]]) -> None:
    _, said = said_by("print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')))")
    assert all(int(rights, 16) in (0, 1 << 2) for rights in said[0].split()), said


def test_a_verdict_says_what_is_enforced_for_its_own_child() -> None:
    on_cpu, on_gpu = (filters.not_enforced(BareProcess(), cuda) for cuda in (False, True))
    gaps = ("writing outside its own folder", "signals to other processes")
    assert all(gap in on_gpu for gap in gaps), "no driver was seen to work under Landlock"
    assert [gap in on_cpu for gap in gaps] == [not guard.confines()] * 2
    assert ("/dev/shm" in on_cpu) is guard.confines() and "/dev/shm" not in on_gpu


@pytest.mark.skipif(not guard.confines(), reason="this kernel does not confine a process to folders")
def test_a_candidate_writes_in_its_own_folders_only(
    said_by: Callable[..., tuple[Child, list[str]]], tmp_path: Path
) -> None:
    (tmp_path / "weights.pt").write_text("the judge's")
    tries = f"import os\nfor path in ('own', '/dev/null', '/dev/shm/pike-{os.getpid()}', '{tmp_path}/weights.pt', "
    tries += f"'{tmp_path}/more', '/proc/{os.getpid()}/oom_score_adj'):\n    try: open(path, 'w').close()\n"
    tries += "    except OSError as error: print(error.errno, path)\n"
    tries += f"try: os.rename('own', '{tmp_path}/moved')\nexcept OSError: print('not moved')\n"
    tries += f"try: os.truncate('{tmp_path}/weights.pt', 0)\nexcept OSError: print('not cut')\n"
    _, said = said_by(tries)
    Path(f"/dev/shm/pike-{os.getpid()}").unlink(missing_ok=True)
    refused = [f"13 {tmp_path}/weights.pt", f"13 {tmp_path}/more", f"13 /proc/{os.getpid()}/oom_score_adj"]
    assert said == [*refused, "not moved", "not cut"]
    assert [path.name for path in tmp_path.iterdir()] == ["weights.pt"]


@pytest.mark.skipif(not guard.confines(), reason="this kernel does not keep signals inside")
def test_no_signal_reaches_a_thread_of_the_judge_nor_its_other_children(
    said_by: Callable[..., tuple[Child, list[str]]],
) -> None:
    other, _ = said_by("")
    tries = f"import os\nfor pid in (*map(int, os.listdir('/proc/{os.getpid()}/task')), {other.pid}):\n"
    tries += "    try: print(os.kill(pid, 0))\n    except PermissionError: pass\n"
    assert said_by(tries)[1] == []


@pytest.mark.skipif(not filters.work(), reason="needs the filter")
def test_no_timer_and_no_file_lets_a_stopped_candidate_go_on(said_by: Callable[..., tuple[Child, list[str]]]) -> None:
    tries = "import ctypes, fcntl, os, signal\nlibc = ctypes.CDLL(None)\n"
    tries += "event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT)\ntimer = ctypes.c_void_p()\n"
    tries += "print(libc.timer_create(1, event, ctypes.byref(timer)), libc.fcntl(0, 10, signal.SIGCONT))"
    assert said_by(tries)[1] == ["-1 -1"]


def test_a_child_that_does_not_read_keeps_no_judge_waiting(tmp_path: Path) -> None:
    channel = Channel(tmp_path, inherited=True, send_seconds=1)

    def fill() -> None:
        for number in range(100_000):
            channel.send(Command.RUN, number, 1, ())

    with pytest.raises(WireViolation):
        fill()
    channel.close()


@pytest.mark.skipif(not filters.work() or not shutil.which("cc"), reason="needs the filter and a C compiler")
def test_processes_that_fork_and_end_at_once_stand_still_are_killed_and_leave_no_zombies(
    said_by: Callable[..., tuple[Child, list[str]]],
) -> None:
    child, _ = said_by(FORKS_ON)
    deadline = time.monotonic() + 5
    while not states_of(child):
        assert time.monotonic() < deadline, "it was never seen"
    with child.paused():
        time.sleep(0.05)
        assert set(states_of(child)) <= {"T", "Z"}
        before = child.pids()
        assert {os.getpgid(pid) for pid in before} == {child.pid}, "one signal no longer reaches all of them"
        time.sleep(0.2)
        assert child.pids() == before
    child.end_helpers()
    time.sleep(0.2)
    assert child.pids() == {child.pid}


def states_of(child: Child) -> list[str]:
    found = []
    for pid in child.pids() - {child.pid}:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return found
