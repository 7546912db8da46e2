"""Whether the kernel's account of a sealed tree is read rightly: threads that end, threads that go on."""

import subprocess
import sys

import pytest

from pike.judge import processes
from pike.judge.process import filters

pytestmark = pytest.mark.skipif(not filters.work(), reason="this machine does not filter system calls")


@pytest.fixture
def unfiltered():
    """A running process without any filter."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def around(process):
    return filters.Around(process.pid, wrapped=False)


def test_a_process_that_goes_on_without_filters_is_named(unfiltered):
    assert str(unfiltered.pid) in filters.missing(around(unfiltered), lambda: {unfiltered.pid})


def test_one_that_is_just_ending_is_not_held_against_the_tree(unfiltered):
    """Its filters are gone before it is: only what still runs at the next look counts."""
    looks = []

    def pids():
        looks.append(1)
        if len(looks) == 2:
            unfiltered.kill()
        return {unfiltered.pid}

    assert filters.missing(around(unfiltered), pids) == ""
    assert len(looks) > 1


def test_one_that_a_kill_waits_for_runs_nothing_of_its_own_again(unfiltered, monkeypatch):
    """Seen for more than a second at its end on a busy machine, where compilers' helpers had been killed."""
    monkeypatch.setattr(filters, "_ENDING_SECONDS", 0.0)
    looks = []

    def pids():
        looks.append(1)
        unfiltered.kill()
        return {unfiltered.pid}

    assert filters.missing(around(unfiltered), pids) == ""
    assert len(looks) == 1


@pytest.mark.parametrize("how", ["exits", "was killed"])
def test_a_thread_that_ends_is_told_from_one_that_runs(unfiltered, monkeypatch, how):
    """As the kernel writes it while a process of many threads is on its way out."""
    pid, status = unfiltered.pid, processes._status(unfiltered.pid, unfiltered.pid)
    assert not processes.ends(pid, pid)
    if how == "exits":
        monkeypatch.setattr(processes, "_stat", lambda *_: str(0x400000 | processes._EXITING))
    else:
        monkeypatch.setattr(processes, "_status", lambda *_: status | {"SigPnd": "0000000000000100"})
    assert processes.ends(pid, pid)
