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
    assert str(unfiltered.pid) in filters.missing(around(unfiltered), {unfiltered.pid})


def test_one_that_a_kill_waits_for_is_not_held_against_the_tree(unfiltered):
    """On a busy machine, helpers of compilers were seen for more than a second after their kill."""
    unfiltered.kill()
    assert filters.missing(around(unfiltered), {unfiltered.pid}) == ""


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
