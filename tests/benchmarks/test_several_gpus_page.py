"""What the page of several GPUs says of runs whose figures are known."""

from __future__ import annotations

from typing import Any

from pages.several_gpus_page import Host, in_words, several_gpus_pages


def run(gpus: int, an_hour: float, ms: float) -> dict[str, Any]:
    """A run of ten seconds with one verdict: judged from 2 s to 6 s by one of two judges, timed for 1 s."""
    row = {"task": "t", "way": "eager", "began": 2.0, "ended": 6.0, "status": "valid", "stages": [["time", 1.0]]}
    judged = row | {"candidate_ms": ms, "reference_ms": 2 * ms}
    rows = [{"task": "t", "way": "explore", "began": 0.0, "ended": 2.0}, judged]
    rates = {"verdicts": 1, "verdicts_per_hour": an_hour, "middle_per_hour": an_hour, "busy_share": 0.2}
    machine = {"machine": "GPU", "cpus": 4, "judges": 2, "gpus": gpus, "executor": "local"}
    return machine | rates | {"seconds": 10.0, "rows": rows}


def test_ratios_compare_with_the_mean_of_the_runs_of_one_gpu() -> None:
    host = Host("h", (("a", run(1, 90.0, 1.0)), ("b", run(1, 110.0, 1.005)), ("two", run(2, 250.0, 1.1))))
    made = several_gpus_pages([host], "command")
    lines = [line for line in made["results/several-gpus.md"].splitlines() if line.startswith("| GPU, h")]
    assert "| 0.90 | 0.90 | 20% | 10% |  |  |" in lines[0]
    assert "| 1.10 | 1.10 | 20% | 10% | 2 of 2 | 1.005 |" in lines[1]
    assert "| 2.50 | 2.50 | 20% | 5% | 0 of 2 | 1.100 |" in lines[2]
    assert "2 GPUs 2.50× (local)" in in_words([host])
    assert made["assets/results/several-gpus-h.svg"].count("<polyline") == 3
