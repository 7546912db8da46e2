"""Profiles end to end: real candidates, judged with a profile; whatever happens to it, the verdict stays."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.judge.conftest import OPTIONS

from pike.core.codec import decode, encode
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.judge.client import JudgeClient
from pike.judge.profile.labels import LEAKS, NO_CUSTOM_KERNEL

Judged = Callable[[str], Evaluation]
PROFILED = "torch.autograd._profiler_enabled()"
LONG = "import torch\nLONG = torch.ones(1024, 1024)\n"
"""What to work on for so long that what Python and a busy machine add to a call is little beside it."""
ADD = """
import ctypes, subprocess, tempfile
folder = tempfile.mkdtemp()
open(folder + "/own.cpp", "w").write('extern "C" void scale(float* y, float by, long n) { for (long i = 0; i < n; i++) y[i] *= by; }')
subprocess.run(["g++", "-O2", "-shared", "-fPIC", folder + "/own.cpp", "-o", folder + "/own.so"], check=True)
scale = ctypes.CDLL(folder + "/own.so").scale
"""
FORGED = """
import sys
profiling, tables = (sys.modules["pike.judge.child." + name] for name in ("profiling", "profile_table"))
honest = profiling.of_operators
def forged(ranges):
    calls = tuple(span // 100 for span in honest(ranges).spans)
    row = tables.ProfileRow("aten::forged", sum(calls), len(calls))
    return tables.ProfileTable(spans=calls, busy=calls, allocated=calls, rows=(row,), total=sum(calls))
profiling.of_operators = forged
"""


@pytest.fixture
def profiled(judge: JudgeClient, task: Task) -> Judged:
    terms = replace(OPTIONS, max_timing_seconds=0.4)

    def judged(source: str) -> Evaluation:
        return judge.evaluate(EvaluationRequest(task, source, terms, profile=True))

    return judged


@pytest.mark.timed
def test_a_profile_names_what_takes_the_time(profiled: Judged, rewrite: Callable[..., str]) -> None:
    found = profiled(rewrite("torch.mm(LONG, LONG)", top=LONG))
    profile = found.profile
    assert found.valid and profile is not None
    longest = profile.hotspots[0]
    assert longest.name == "aten::mm" and longest.calls == 2.0
    assert 0.5 < longest.share <= sum(hotspot.share for hotspot in profile.hotspots) <= 1.02
    assert 0.5 < (profile.busy_share or 0.0) <= 1.0
    assert profile.operations == 2 * 2 * 64 * 96 * 96
    assert profile.least_bytes == 4 * (2 * 64 * 96 + 2 * 96 * 96 + 96)
    assert profile.operations_per_second == pytest.approx(profile.operations / ((found.candidate_ms or 0.0) / 1e3))
    assert profile.peak_bytes > 50 << 20
    assert "checked against the judge's clock" in profile.note
    assert NO_CUSTOM_KERNEL in found.labels
    assert LEAKS not in found.labels
    assert dict(found.seconds)["profile"] > 0
    assert decode(Evaluation, encode(found)) == found


def test_nothing_is_profiled_unless_it_is_asked_for(verdict: Callable[..., Evaluation], rewrite) -> None:
    found = verdict(rewrite(), max_timing_seconds=0.4)
    assert found.valid and found.profile is None
    assert not any(label.startswith("by-profile:") for label in found.labels)


def test_machine_code_of_its_own_is_seen_though_the_profiler_cannot_see_it(profiled: Judged, rewrite) -> None:
    native = "scale(ctypes.c_void_p(LONG.data_ptr()), ctypes.c_float(1.0), ctypes.c_long(LONG.numel()))"
    found = profiled(rewrite("; ".join([native] * 8), top=LONG + ADD))
    assert found.valid and found.profile is not None and found.profile.hotspots
    assert NO_CUSTOM_KERNEL not in found.labels


def test_memory_that_grows_with_every_call_is_labelled(profiled: Judged, rewrite) -> None:
    found = profiled(rewrite("kept.append(torch.ones(1 << 16))", top="kept = []\n"))
    assert found.valid
    assert LEAKS in found.labels


@pytest.mark.parametrize(
    ("before", "result", "words"),
    [
        (f"if {PROFILED}: __import__('os')._exit(3)", "y", "failed while it was profiled (runtime-error)"),
        ("pass", f"torch.zeros_like(y) if {PROFILED} else y", "failed while it was profiled (wrong-output)"),
    ],
)
def test_a_candidate_that_fails_only_when_profiled_keeps_its_verdict(
    profiled: Judged, rewrite, before: str, result: str, words: str
) -> None:
    found = profiled(rewrite(before, result))
    assert found.valid and found.timing is not None and found.profile is not None
    assert words in found.profile.note
    assert found.profile.hotspots == ()
    assert found.profile.least_bytes > 0
    assert found.error is not None and found.error.max_abs <= found.error.budget_max_abs


def test_times_that_the_judges_clock_contradicts_are_discarded(profiled: Judged, rewrite) -> None:
    found = profiled(rewrite("[torch.relu(y @ y.t()) for _ in range(40)]", top=FORGED))
    assert found.valid and found.profile is not None
    assert "contradicts the judge's clock by" in found.profile.note
    assert found.profile.hotspots == () and NO_CUSTOM_KERNEL not in found.labels
