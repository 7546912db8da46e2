"""Other programs on the CPU are noticed, and our own are not taken for them."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pike.judge.timing.contention import ContentionMeter

pytestmark = pytest.mark.timed
TICKS = os.sysconf("SC_CLK_TCK")
TOLD = pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel has no pressure information")


def tell(proc: Path, waited: float, idle: float | None, stolen: float = 3.0) -> None:
    """What the kernel says of a machine with two CPUs, in seconds so far."""
    (proc / "pressure").mkdir(exist_ok=True)
    (proc / "pressure/cpu").write_text(
        f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waited * 1e6:.0f}\nfull total=0\n"
    )
    if idle is not None:
        cpu = f"9 9 9 {idle * TICKS - 7:.0f} 7 9 9 {stolen * TICKS:.0f} 0 0\n"
        (proc / "stat").write_text(f"cpu  {cpu}cpu0 {cpu}cpu1 {cpu}intr 5 5\n")


def test_waiting_is_taken_between_two_looks_and_others_over_half_a_second(tmp_path):
    tell(tmp_path, 1.0, 10.0)
    meter = ContentionMeter(proc=tmp_path, clock=iter([5.0, 6.0, 6.2, 6.4, 6.6]).__next__)
    tell(tmp_path, 1.4, 11.0)  # of two CPUs one was idle
    found = meter.read()
    assert found.waited == found.share == pytest.approx(0.4)
    assert found.others == pytest.approx(1.0, abs=0.03)
    tell(tmp_path, 1.4, 11.4)
    found = meter.read()
    assert found.waited == found.share == 0.0
    assert found.others == pytest.approx(1.0 / 1.2, abs=0.03)
    tell(tmp_path, 1.4, 11.8)
    assert meter.read().others == pytest.approx(1.0 / 1.4, abs=0.03)
    tell(tmp_path, 1.4, 12.2)
    assert meter.read().others == 0.0


def test_cpu_time_that_the_host_takes_counts_as_waiting(tmp_path):
    tell(tmp_path, 1.0, 10.0)
    meter = ContentionMeter(proc=tmp_path, clock=iter([5.0, 6.0]).__next__)
    tell(tmp_path, 1.1, 10.5, stolen=3.6)  # of 1.5 s that were wanted 0.6 were taken
    found = meter.read()
    assert found.stolen == pytest.approx(0.4, abs=0.02)
    assert found.others == pytest.approx(0.9, abs=0.03)
    assert found.share == found.delayed == pytest.approx(0.5, abs=0.02)


def test_what_the_host_takes_of_little_is_little(tmp_path):
    tell(tmp_path, 1.0, 10.0)
    meter = ContentionMeter(proc=tmp_path, clock=iter([5.0, 6.0]).__next__)
    tell(tmp_path, 1.0, 11.9, stolen=3.1)
    assert meter.read().stolen == pytest.approx(0.09)


def test_a_kernel_that_does_not_tell_of_waiting_drops_nothing(tmp_path):
    assert ContentionMeter(proc=tmp_path).read().share == 0.0


def tell_of_thread(proc: Path, pid: int, thread: int, ran: float, waited: float) -> None:
    folder = proc / str(pid) / "task" / str(thread)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"{ran * 1e9:.0f} {waited * 1e9:.0f} 12\n")


def test_who_waits_elsewhere_is_not_who_is_timed(tmp_path):
    tell(tmp_path, 1.0, 10.0)
    tell_of_thread(tmp_path, 7, 7, 1.0, 0.5)
    tell_of_thread(tmp_path, 7, 8, 1.0, 0.5)
    meter = ContentionMeter(timed=[7, 9], proc=tmp_path, clock=iter([5.0, 6.0, 7.0]).__next__)
    tell(tmp_path, 1.8, 10.0)
    tell_of_thread(tmp_path, 7, 7, 1.9, 0.6)
    tell_of_thread(tmp_path, 7, 8, 1.9, 0.65)
    tell_of_thread(tmp_path, 7, 10, 0.3, 0.3)  # it began meanwhile
    found = meter.read()
    assert found.waited == pytest.approx(0.8) and found.others > 1.9
    assert found.ours == found.share == pytest.approx(0.25)
    tell(tmp_path, 2.6, 10.0)
    assert meter.read().share == 0.0


@pytest.mark.parametrize("counted", [False, True])
def test_where_threads_are_not_counted_all_waiting_matters(tmp_path, counted):
    tell(tmp_path, 1.0, 10.0)
    if not counted:
        tell_of_thread(tmp_path, 7, 7, 0.0, 0.0)
    meter = ContentionMeter(timed=[7], proc=tmp_path, clock=iter([5.0, 6.0]).__next__)
    tell(tmp_path, 1.4, 10.0)
    assert meter.read().share == pytest.approx(0.4)


@pytest.mark.parametrize("stat", [None, "", "cpu  1 2 3 4\n", "cpu  a b c d e f g h\n"])
def test_where_idle_time_is_unknown_all_waiting_is_for_others(tmp_path, stat):
    if stat is not None:
        (tmp_path / "stat").write_text(stat)
    tell(tmp_path, 1.0, None)
    meter = ContentionMeter(proc=tmp_path, clock=iter([5.0, 6.0]).__next__)
    tell(tmp_path, 1.5, None)
    assert meter.read().share == pytest.approx(0.5)


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@contextmanager
def spinning(count: int, seconds: float) -> Iterator[list[int]]:
    """So many processes of the machine that keep its CPUs busy, by number."""
    spinners = [multiprocessing.get_context("fork").Process(target=_spin, args=(seconds,)) for _ in range(count)]
    for spinner in spinners:
        spinner.start()
    yield [spinner.pid or 0 for spinner in spinners]
    for spinner in spinners:
        spinner.join()


@TOLD
def test_our_own_processes_keep_each_other_waiting_and_are_not_others():
    """Nor are they hidden where they are not known to be ours."""
    with spinning(2 * len(os.sched_getaffinity(0)) + 1, 1.5) as pids:
        meter, blind = ContentionMeter(pids), ContentionMeter()
        time.sleep(0.8)
        found, all_others = meter.read(), blind.read()
    assert all_others.waited > 0.5 and all_others.share > 0.5
    assert found.waited > 0.5 and found.others < 0.5 * all_others.others


@TOLD
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_others_that_crowd_cpus_we_do_not_use_are_no_contention():
    cpus = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, cpus[:1])
        with spinning(3, 1.5) as others:  # they start where we are
            for pid in others:
                os.sched_setaffinity(pid, cpus[1:2])
            meter, blind = ContentionMeter([os.getpid()], [os.getpid()]), ContentionMeter([os.getpid()])
            _spin(0.8)
            found, all_waiting = meter.read(), blind.read()
    finally:
        os.sched_setaffinity(0, cpus)
    # Two of the four run at any time, so about half of the time is waited.
    assert all_waiting.waited > 0.4 and all_waiting.others > 0.5
    assert found.ours < 0.5 * all_waiting.waited


def test_what_one_of_ours_used_before_it_ended_is_not_others():
    with spinning(1, 0.8) as pids:
        time.sleep(0.4)
        meter, blind = ContentionMeter(pids), ContentionMeter()
    time.sleep(0.1)
    assert meter.read().others <= blind.read().others + 0.1
