"""Spare children: handed out once, replaced where they fail."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from pike.evaluate.child.stub import HelloOrder
from pike.evaluate.child.wire import Command, Reply
from pike.evaluate.launch import Child, ChildPlan
from pike.evaluate.nursery import Nursery
from pike.evaluate.sandbox import BareProcess

pytestmark = pytest.mark.timed

PLAN = ChildPlan(BareProcess(), (), False)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def greets(child: Child) -> bool:
    try:
        child.send(Command.HELLO, HelloOrder())
        return child.receive(time.monotonic() + 120).reply is Reply.OK
    finally:
        child.kill()


def test_a_spare_is_handed_out_once(nursery):
    nursery.prepare(PLAN)
    spare = nursery.pids
    first = nursery.take(PLAN)
    assert {first.pid} == spare
    assert not nursery.pids
    second = nursery.take(PLAN)
    assert second.pid != first.pid
    assert greets(first)
    second.kill()


def test_a_spare_that_died_is_replaced(nursery):
    nursery.prepare(PLAN)
    os.kill(next(iter(nursery.pids)), signal.SIGKILL)
    assert greets(nursery.take(PLAN))


def test_a_spare_for_another_plan_is_not_used(nursery):
    nursery.prepare(PLAN)
    spare = nursery.pids
    child = nursery.take(ChildPlan(BareProcess(), ("/usr",), False))
    assert {child.pid} != spare
    assert not any(os.path.exists(f"/proc/{pid}") for pid in spare)
    child.kill()


def test_a_frozen_spare_does_not_run_until_it_is_thawed(nursery):
    def used() -> int:
        """Ticks of CPU time; a child that starts up spends all it gets."""
        (pid,) = nursery.pids
        with open(f"/proc/{pid}/stat") as file:
            return sum(int(ticks) for ticks in file.read().rpartition(")")[2].split()[11:13])

    nursery.prepare(PLAN)
    nursery.stand_still(True)
    time.sleep(0.2)  # until every thread has stopped
    before = used()
    time.sleep(0.5)
    assert used() == before
    nursery.stand_still(False)
    assert greets(nursery.take(PLAN))
