"""Every attack bites where the candidate shares a process with clock, reference and comparison."""

import os
from typing import Any

import pytest

from pike.corpus import CorpusSample, SampleKind, catalogue

ATTEMPTS = 3
"""Some attacks need luck as well: a block of memory that is still free, a machine that is not too busy."""
ON_CPU = [s for s in catalogue() if s.kind is SampleKind.ATTACK and "cpu" in s.devices]
FIRST = {sample.bite: sample.id for sample in reversed(ON_CPU)}
"""One attack for each way to bite; the others are slow tests, all together."""
SAMPLES = [s if s.id in FIRST.values() else pytest.param(s, marks=pytest.mark.slow) for s in ON_CPU]


def bitten(bite: str, found: dict[str, Any]) -> bool:
    """Whether the naive harness was fooled or harmed in the way that a sample states."""
    speedup = found.get("speedup", 0.0)
    return {
        "gain": bool(found.get("accepted")) and speedup >= 1.5,
        "accepted": bool(found.get("accepted")),
        "report": bool(found.get("accepted")) and speedup >= 1000,
        "reached": found["reached"],
        "dies": bool(found.get("died")) and not found["hung"],
        "hangs": found["hung"],
        "process": found["left"] > 0,
        "memory": found.get("peak", 0) > 8 << 30,
        "flood": found["log_bytes"] > 1_000_000,
    }[bite]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_an_attack_bites_a_naive_harness(sample: CorpusSample, naive) -> None:
    if len(os.sched_getaffinity(0)) < sample.cpus:
        pytest.skip(f"needs {sample.cpus} CPUs")
    for _ in range(ATTEMPTS):
        found = naive(sample)
        if bitten(sample.bite, found):
            return
    pytest.fail(f"{sample.id} did not bite: {found}")


def test_the_naive_harness_judges_an_honest_candidate_as_anyone_would(naive) -> None:
    for name in ("reference_again", "slow_but_right"):
        honest = next(s for s in catalogue() if s.id == name)
        found = [naive(honest) for _ in range(3)]
        assert all(one["accepted"] for one in found), found
        assert min(one["speedup"] for one in found) < 5  # other programs may disturb one of them
