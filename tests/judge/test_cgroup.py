"""Control groups: a process joins, is frozen and killed with all its children; limits are written where they exist."""

import subprocess
import time

import pytest

from pike.judge import processes
from pike.judge.process import cgroup
from pike.judge.process.cgroup import GroupParent, ProcessGroup


@pytest.fixture
def group():
    place = cgroup.find()
    if place is None:
        pytest.skip("no control group of version 2 can be made here")
    made = ProcessGroup(place, f"{cgroup.prefix()}contract", 0, 0)
    yield made
    made.close()
    assert not made.path.exists()


def test_all_that_descends_from_a_member_is_frozen_and_killed_at_once(group):
    script = "for i in 1 2 3; do setsid sleep 600 & done; wait"
    process = subprocess.Popen(group.joining(["/bin/sh", "-c", script]))
    deadline = time.monotonic() + 20
    while len(group.pids()) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    members = group.pids()
    assert len(members) == 4 and process.pid in members
    group.freeze(True)
    assert "frozen 1" in _soon(lambda: (group.path / "cgroup.events").read_text(), "frozen 1")
    group.freeze(False)
    group.kill()
    process.wait(timeout=10)
    _soon(lambda: str(sum(processes.held(pid).alive for pid in members)), "0")


def test_limits_are_written_where_the_kernel_offers_them(tmp_path):
    ProcessGroup(GroupParent(tmp_path, True, True), "both", 5 << 30, 64).confine(frozenset({3, 1}))
    ProcessGroup(GroupParent(tmp_path, False, True), "tasks", 5 << 30, 64)
    written = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {
        "both/memory.max": str(5 << 30), "both/memory.swap.max": "0", "both/memory.oom.group": "1",
        "both/pids.max": "64", "both/cpuset.cpus": "1,3", "tasks/pids.max": "64",
    }  # fmt: skip


def _soon(ask, wanted: str) -> str:
    deadline = time.monotonic() + 10
    while wanted not in (said := ask()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert wanted in said
    return said
