"""Other programs on the CPU are noticed."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from pike.evaluate.contention import ContentionMeter

pytestmark = pytest.mark.timed


def test_the_share_is_taken_between_two_looks(tmp_path):
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 total=0\n")
    meter = ContentionMeter(pressure)
    time.sleep(0.2)
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1100000\nfull avg10=0.00 total=0\n")
    assert 0.3 < meter.share() <= 0.5
    assert meter.share() == 0.0


def test_a_kernel_that_does_not_tell_drops_nothing(tmp_path):
    assert ContentionMeter(tmp_path / "missing").share() == 0.0


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel has no pressure information")
def test_more_spinning_processes_than_cores_are_seen():
    context = multiprocessing.get_context("fork")
    spinners = [context.Process(target=_spin, args=(1.0,)) for _ in range(2 * len(os.sched_getaffinity(0)) + 1)]
    meter = ContentionMeter()
    for spinner in spinners:
        spinner.start()
    for spinner in spinners:
        spinner.join()
    assert meter.share() > 0.5
