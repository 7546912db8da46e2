"""CPUs for both sides: how they are shared out, and that no side gets more while it is timed."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pike.core.verdict.evaluation import Status
from pike.judge import processes
from pike.judge.process import filters
from pike.judge.refusal import Refused
from pike.judge.timing import cores

pytestmark = pytest.mark.timed

needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Eight CPUs, two hardware threads each: 0 and 4 share a core, 1 and 5, and so on."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    return lambda threads, place=0: cores.share(threads, place, tmp_path)


def test_all_cpus_are_not_shared_out(machine):
    assert [machine(threads) for threads in (0, 8, 9)] == [None] * 3


def test_whole_cores_come_first_and_the_judge_has_the_others(machine):
    assert machine(5) == cores.CoreShare(frozenset({0, 1, 2, 3, 4}), frozenset({5, 6, 7}))


def test_each_device_has_its_own_cpus_while_there_is_room(machine):
    assert [sorted(machine(3, place).sides) for place in (0, 1, 6, 7)] == [[0, 1, 2], [3, 4, 5]] * 2


def test_a_judge_is_never_tied_to_a_single_cpu(machine):
    assert machine(7).judge == frozenset(range(8))


def test_both_sides_share_one_cpu_in_turn_and_all_get_their_cpus_back(machine, monkeypatch):
    where: dict[int, list[set[int]]] = {}
    monkeypatch.setattr(os, "sched_setaffinity", lambda task, cpus: where.setdefault(task, []).append(set(cpus)))
    sides = [SimpleNamespace(child=SimpleNamespace(speaker=lambda pid=pid: pid)) for pid in (101, 102)]
    with cores.taking_turns(*sides) as move:
        for _ in range(40):
            move()
    seats = where[101][:-1]
    assert where[102][:-1] == seats
    assert all(len(seat) == 1 and not seat & judge for seat, judge in zip(seats, where[0][:-1], strict=True))
    assert len({min(seat) for seat in seats}) > 3
    assert where[101][-1] == where[102][-1] == where[0][-1] == set(range(8))


def test_a_side_that_died_is_left_to_the_next_call_to_find(machine, monkeypatch):
    def gone(task, cpus):
        if task == 102:
            raise ProcessLookupError(task)

    monkeypatch.setattr(os, "sched_setaffinity", gone)
    sides = [SimpleNamespace(child=SimpleNamespace(speaker=lambda pid=pid: pid)) for pid in (101, 102)]
    with cores.taking_turns(*sides) as move:
        move()


@needs_two
def test_all_threads_of_a_tree_are_moved():
    one = frozenset([min(os.sched_getaffinity(0))])
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert "may run on more" in cores.outside({process.pid}, one)
        cores.move(lambda: {process.pid}, one)
        assert cores.outside({process.pid}, one) == ""
        process.kill()


@needs_two
def test_judge_and_reference_have_their_cpus_back_afterwards(judge, verdict, rewrite):
    all_of_them = os.sched_getaffinity(0)
    assert verdict(rewrite(), threads=1).status is Status.VALID
    children = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == judge.pid]
    assert children
    assert all(os.sched_getaffinity(pid) == all_of_them for pid in (judge.pid, *children))


@needs_two
@pytest.mark.skipif(not filters.work(), reason="no system call filter here")
def test_while_timed_a_candidate_has_the_cpus_that_were_given_and_cannot_take_more(verdict, rewrite):
    look = "self.seen = getattr(self, 'seen', 0) + 1; os.sched_setaffinity(0, range(os.cpu_count()))"
    look += "; sys.stderr.write(f'call {self.seen}: {len(os.sched_getaffinity(0))} CPUs\\n')"
    found = verdict(rewrite(look, top="import os, sys\n"), threads=1)
    assert found.status is Status.VALID, found.log
    counts = [int(line.split()[2]) for line in found.log.splitlines() if line.startswith("call")]
    assert counts[0] == len(os.sched_getaffinity(0)), "while it is built and checked it may use all"
    assert counts[-1] == 1


@needs_two
def test_a_candidate_that_got_away_while_it_was_timed_is_a_sandbox_violation():
    cpus = sorted(os.sched_getaffinity(0))
    given = cores.CoreShare(frozenset(cpus[:1]), frozenset(cpus))
    reference, candidate = Sleeper(), Sleeper()
    try:
        held = cores.keeping(given, reference, [candidate])
        held.__enter__()
        assert cores.outside(reference.pids() | candidate.pids(), given.sides) == ""
        os.sched_setaffinity(candidate.process.pid, cpus)
        with pytest.raises(Refused) as caught:
            held.__exit__(None, None, None)
        assert caught.value.status is Status.SANDBOX_VIOLATION
        assert os.sched_getaffinity(reference.process.pid) == set(cpus)
    finally:
        for sleeper in (reference, candidate):
            sleeper.process.kill()
            sleeper.process.wait()


class Sleeper:
    """As much of a runner with its child as has CPUs."""

    def __init__(self) -> None:
        self.child = self
        self.process = subprocess.Popen(["sleep", "60"])

    def pids(self) -> set[int]:
        return {self.process.pid}

    def confine(self, cpus: frozenset[int]) -> None:
        """No group."""


def _parent(pid: str) -> int:
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_processes_of_the_judge_itself_are_no_strays():
    own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        found = processes.strays(set())
        assert other.pid in found
        assert own.pid not in found
    finally:
        for process in (own, other):
            process.kill()
            process.wait()
