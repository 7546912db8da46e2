"""Spare children: handed out once, replaced where they fail."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from pike.judge.child.orders import HelloOrder
from pike.judge.child.wire import ChildReply, Command
from pike.judge.process.child import Child, ChildPlan
from pike.judge.process.warm_processes import WarmProcesses
from pike.judge.sandbox import BareProcess


class Cold(BareProcess):
    """A level whose children are started, not forked."""

    forks = False


LEVEL = Cold()
PLAN = ChildPlan(LEVEL, (), False)


@pytest.fixture
def warm() -> Iterator[WarmProcesses]:
    made = WarmProcesses()
    yield made
    made.close()


def greets(child: Child) -> bool:
    try:
        child.send(Command.HELLO, HelloOrder())
        return child.receive(time.monotonic() + 120).reply is ChildReply.OK
    finally:
        child.kill()


def test_a_spare_is_handed_out_once(warm):
    warm.prepare(PLAN)
    spare = warm.pids
    first = warm.take(PLAN)
    assert {first.pid} == spare
    assert not warm.pids
    second = warm.take(PLAN)
    assert second.pid != first.pid
    assert greets(first)
    second.kill()


def test_a_spare_that_died_is_replaced(warm):
    warm.prepare(PLAN)
    os.kill(next(iter(warm.pids)), signal.SIGKILL)
    assert greets(warm.take(PLAN))


def test_a_spare_for_another_plan_is_not_used(warm):
    warm.prepare(PLAN)
    spare = warm.pids
    child = warm.take(ChildPlan(LEVEL, ("/usr",), False))
    assert {child.pid} != spare
    assert not any(os.path.exists(f"/proc/{pid}") for pid in spare)
    child.kill()


def test_a_paused_spare_does_not_run(warm):
    def used() -> int:
        """Ticks of CPU time; a child that starts up spends all it gets."""
        (pid,) = warm.pids
        with open(f"/proc/{pid}/stat") as file:
            return sum(int(ticks) for ticks in file.read().rpartition(")")[2].split()[11:13])

    warm.prepare(PLAN)
    with warm.paused():
        time.sleep(0.2)  # until every thread has stopped
        before = used()
        time.sleep(0.5)
        assert used() == before
    assert greets(warm.take(PLAN))
