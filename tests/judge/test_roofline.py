"""What no device can do: the floor under a time, and what becomes of a candidate that lies below it."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from pike.core.errors import UserError
from pike.core.task import LeastWork, Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status, Timing, Tolerance
from pike.judge.candidate_evaluation import AUDITED
from pike.judge.child.memory.layout import layout_of
from pike.judge.judge import Judge
from pike.judge.roofline.ceilings import MeasuredCeilings, Rates, host_cache_bytes
from pike.judge.roofline.roofline import DISPROVED, SLACK, UNMEASURED, Need, Roofline, TimeCheck, written_bytes
from pike.judge.timing.contention import ContentionMeter

pytestmark = pytest.mark.timed

CACHE = 1 << 20


@dataclass(frozen=True)
class FixedCeilings(MeasuredCeilings):
    """Limits that are known without a measurement."""

    memory: float
    arithmetic: Rates
    cache: int = 0

    def bytes_per_second(self) -> float:
        return self.memory

    def rates(self) -> Rates:
        return self.arithmetic

    def cache_bytes(self) -> int:
        return self.cache


DEVICE = FixedCeilings(memory=1e9, arithmetic=Rates(1e9, 2e9, 3e9), cache=CACHE)
"""A gigabyte a second, and three gigaflop in its fastest arithmetic."""


def took(candidate_ms: float, reference_ms: float = 100.0) -> Timing:
    speedup = reference_ms / candidate_ms
    return Timing(reference_ms, candidate_ms, speedup, (0.9 * speedup, 1.1 * speedup), 12, 60, 0.01)


def look(
    candidate_ms: float, declared: LeastWork, tolerance: Tolerance = Tolerance.STRICT, **known: float
) -> TimeCheck:
    need = Need(declared, 0, lambda: pytest.fail("nobody asked"))
    return Roofline(DEVICE).check(took(candidate_ms, **known), need, tolerance)


@pytest.mark.parametrize(
    ("declared", "ms"),
    [(LeastWork(operations=45_000_000), 15.0), (LeastWork(bytes=2 * (3 * CACHE + 20_000_000)), 20.0)],
    ids=["arithmetic", "memory"],
)
def test_a_time_below_the_floor_is_noticed_and_one_above_is_not(declared, ms):
    floor = look(5.0, declared).below
    assert floor is not None
    assert floor.ms == pytest.approx(ms / SLACK)
    assert look(1.2 * floor.ms, declared).below is None
    assert look(0.95 * floor.ms, declared).below is None  # its interval allows a longer time
    assert look(0.85 * floor.ms, declared).below is not None


def test_bytes_that_a_cache_may_hold_take_no_time():
    assert look(0.001, LeastWork(bytes=2 * 3 * CACHE)) == TimeCheck()


def test_where_the_caches_are_unknown_they_may_hold_everything():
    need = Need(LeastWork(bytes=1 << 40), 1 << 40, lambda: 1 << 40)
    assert Roofline(replace(DEVICE, cache=0)).check(took(0.001), need, Tolerance.STRICT) == TimeCheck()


def test_the_published_tolerance_asks_for_no_work():
    assert look(0.01, LeastWork(1 << 40, 1 << 40), Tolerance.PAPER) == TimeCheck()


def test_a_declaration_that_the_reference_itself_disproves_is_not_used():
    assert look(5.0, LeastWork(operations=60_000_000), reference_ms=12.0) == TimeCheck(label=DISPROVED)


def test_a_ceiling_is_measured_again_beside_the_candidate_before_it_counts():
    class Awaking(MeasuredCeilings):
        """A device that something kept busy at the first look."""

        seen = 0

        def rates(self) -> Rates:
            self.seen += 1
            return Rates(1e9, 1e9, 1e12 if self.seen == 2 else 1e9)

    device = Awaking(torch.device("cpu"), 1)
    roofline, need = Roofline(device), Need(LeastWork(operations=30_000_000), 0, lambda: 0)
    assert roofline.check(took(5.0), need, Tolerance.STRICT) == TimeCheck()
    assert roofline.check(took(5.0), need, Tolerance.STRICT) == TimeCheck()
    assert device.seen == 2
    assert roofline.check(took(1e-6), need, Tolerance.STRICT).below.ms == pytest.approx(0.03 / SLACK)  # the larger one
    assert device.seen == 3


def test_what_cannot_be_measured_is_said():
    class Full(MeasuredCeilings):
        def rates(self) -> Rates:
            raise torch.OutOfMemoryError

    roofline = Roofline(Full(torch.device("cpu"), 1))
    assert roofline.check(took(5.0), Need(LeastWork(operations=1), 0, lambda: 0), Tolerance.STRICT) == TimeCheck(
        label=UNMEASURED
    )


def test_a_candidate_that_is_no_faster_is_never_looked_at():
    class Untouchable(MeasuredCeilings):
        def rates(self) -> Rates:
            pytest.fail("measured for nothing")

    need = Need(LeastWork(operations=1 << 60), 0, lambda: 0)
    assert Roofline(Untouchable(torch.device("cpu"), 1)).check(took(120.0), need, Tolerance.STRICT) == TimeCheck()


def test_outputs_count_as_far_as_calls_write_them_anew():
    small, masked = torch.zeros(8), torch.zeros(64, 1024)
    outputs = layout_of((small, masked))
    one, other = (torch.zeros(outputs.nbytes, dtype=torch.uint8) for _ in range(2))
    place = outputs.leaves[1].offset
    other[place : place + 4 * 1024 : 4] = 1  # a quarter of the bytes of one row in 64
    assert written_bytes(one, other, outputs) == 4 * 1024
    need = Need(LeastWork(), outputs.nbytes, lambda: 20_000_000 + 3 * CACHE)
    assert need.under(Tolerance.STRICT, outputs.nbytes).bytes == 0
    assert need.under(Tolerance.STRICT, outputs.nbytes - 1).bytes == 20_000_000 + 3 * CACHE


def test_this_machine_has_ceilings():
    device = MeasuredCeilings(torch.device("cpu"), 1)
    rates = device.rates()
    assert 1e8 < device.bytes_per_second() < 1e13
    assert all(1e7 < rate <= rates.most < 1e15 for rate in (rates.float32, rates.tf32, rates.half))


def test_caches_are_counted_once(tmp_path):
    for cpu, cache, level, size, shared in (
        ("cpu0", "index0", 1, "32K", "0"),
        ("cpu0", "index2", 2, "1024K", "0"),
        ("cpu1", "index2", 2, "1024K", "1"),
        ("cpu0", "index3", 3, "32M", "0-1"),
        ("cpu1", "index3", 3, "32M", "0-1"),
    ):
        folder = tmp_path / cpu / "cache" / cache
        folder.mkdir(parents=True)
        for name, value in (("level", level), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(f"{value}\n")
    assert host_cache_bytes(tmp_path) == (2 + 32) << 20
    assert host_cache_bytes(tmp_path / "cpu0" / "cache") == 0


SLOW = """
import time
import torch
from torch import nn

LEAST_OPERATIONS = 4_000_000


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        time.sleep(0.008)
        return self.linear(x)


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96]
"""
"""A model whose work is to wait, so that only the floor notices who skips it."""
OPTIONS = EvaluateOptions(device="cpu", max_timing_seconds=0.4, timeout_seconds=60.0, correctness_seeds=1, threads=1)
TASK = Task("slow", "waits", TaskKind.SOURCE, SLOW, "slow.py")


@pytest.fixture(scope="module")
def judge():
    """A judge in this process, on a device that does a gigaflop a second."""
    judge = Judge(lambda device, threads: FixedCeilings(1e15, Rates(1e9, 1e9, 1e9), CACHE))
    yield judge
    judge.close()


@pytest.fixture
def verdict(judge, monkeypatch):
    """`verdict(old, new)` judges the model with one piece of its text replaced, whatever else runs on this machine."""
    monkeypatch.setattr(
        "pike.judge.timing.session.ContentionMeter", lambda *pids: ContentionMeter(*pids, Path("/none"))
    )

    def judged(*changes: tuple[str, str], task: Task = TASK):
        candidate = SLOW.replace("class Model(", "class ModelNew(")
        for old, new in changes:
            assert old in candidate
            candidate = candidate.replace(old, new)
        return judge.evaluate(EvaluationRequest(task, candidate, OPTIONS))

    return judged


def test_a_candidate_that_skips_the_work_is_held_and_not_scored(verdict):
    found = verdict(("time.sleep(0.008)", "pass"))
    assert found.status is Status.IMPLAUSIBLE
    assert found.timing is None
    assert "less than 2.67 ms is not possible here (4e+06 operations" in found.reason


def test_a_candidate_above_the_floor_is_scored(verdict):
    found = verdict(("0.008", "0.004"))
    assert found.status is Status.VALID
    assert found.timing.speedup > 1.3
    assert AUDITED not in found.labels


def test_an_audit_tries_more_than_a_search_does(verdict):
    """Right on what the task draws, and wrong on values so small that a search never tries them."""
    found = verdict(("time.sleep(0.008)", "pass"), ("self.linear(x)", "self.linear(x + (x.std() < 0.01))"))
    assert found.status is Status.WRONG_OUTPUT
    assert "small values" in found.reason


def test_a_candidate_that_takes_its_time_when_it_is_audited_gets_that_time(verdict):
    """It lags from the first call on an input of another kind, which only an audit makes."""
    late = "self.late = getattr(self, 'late', False) or bool(x.std() < 0.01); time.sleep(0.005 * self.late)"
    found = verdict(("time.sleep(0.008)", late))
    assert found.status is Status.VALID, found.reason
    assert AUDITED in found.labels
    assert found.timing.candidate_ms > 5


def test_a_task_that_declares_nonsense_is_refused(verdict):
    with pytest.raises(UserError, match="LEAST_OPERATIONS is '10 million'"):
        verdict(task=replace(TASK, source=SLOW.replace("4_000_000", "'10 million'")))
