"""The corpus on one device: every sample, what is expected of it and what it got. No test runs those that need a GPU.

    PYTHONPATH=src python3 benchmarks/corpus_on_gpu.py --out corpus.json [--seconds 540] [--only NAME ...]

Needs only torch and numpy. Several commands may share a device, each with a `--part` (`1/4`) and a file of its own.
Verdicts are written to the file as they come; a second call with the same file goes on where the first one stopped, so
that a machine that is lent for minutes is enough. Ends with a table; exit code 1 if a sample did not get its expected
verdict, 3 if the time was not enough.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from pike.core.verdict.evaluation import EvaluateOptions
from pike.corpus import Bait, CorpusSample, SampleKind, SampleOutcome, catalogue, judge_sample, obstacle
from pike.judge.client import JudgeClient


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a JSON file; verdicts in it are not repeated")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--seconds", type=float, default=540.0, help="no sample is begun after this time")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="names of samples")
    parser.add_argument("--part", default="1/1", help="of the samples that wait, each N-th from the I-th on: I/N")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    rows: dict[str, dict[str, Any]] = json.loads(given.out.read_text()) if given.out.exists() else {}
    samples = [s for s in catalogue() if not given.only or s.id in given.only]
    waiting = [s for s in samples if given.only or s.id not in rows]
    part, parts = map(int, given.part.split("/"))
    waiting = sorted(waiting, key=by_task)[part - 1 :: parts]
    options = EvaluateOptions(
        given.device, sandbox=given.sandbox, threads=given.threads, max_timing_seconds=2.0, correctness_seeds=2
    )
    with Bait():
        judge = JudgeClient()
        try:
            for sample in waiting:
                if time.monotonic() > until:
                    break
                rows[sample.id] = row(judge, sample, options)
                given.out.write_text(json.dumps(rows, indent=1))
                print(line(rows[sample.id]), flush=True)
        finally:
            judge.close()
    return summarise([rows[s.id] for s in samples if s.id in rows], len(samples))


def by_task(sample: CorpusSample) -> tuple[bool, str, str, str]:
    """Slow ones last; one task after the other, because a judge keeps the last one ready."""
    return sample.slow, sample.task, sample.precision.value, sample.id


def row(judge: JudgeClient, sample: CorpusSample, options: EvaluateOptions) -> dict[str, Any]:
    """What came of one sample, as plain values."""
    found = {"id": sample.id, "kind": sample.kind.value, "mechanism": sample.mechanism, "rows": list(sample.rows)}
    found |= {"expected": " or ".join(sample.expected), "gap": sample.gap, "effort": sample.effort.value}
    if why := obstacle(sample, options.device, options.sandbox):
        return found | {"got": "", "skipped": why}
    return found | told(judge_sample(judge, sample, options))


def told(outcome: SampleOutcome) -> dict[str, Any]:
    """An outcome as plain values."""
    timing = outcome.evaluation.timing if outcome.evaluation else None
    return {
        "got": outcome.got,
        "problem": outcome.problem,
        "reason": outcome.reason,
        "speedup": outcome.speedup,
        "speedup_ci95": list(timing.speedup_ci95) if timing else None,
        "device": outcome.evaluation.device if outcome.evaluation else "",
        "labels": list(outcome.evaluation.labels) if outcome.evaluation else [],
        "seconds": round(outcome.seconds, 2),
        "log": outcome.evaluation.log[-1500:] if outcome.evaluation and outcome.problem else "",
    }


def line(found: dict[str, Any]) -> str:
    """One row of the table."""
    if "skipped" in found:
        return f"  -   {found['id']:36} {found['skipped']}"
    mark = "ok  " if not found["problem"] else "gap " if found["gap"] else "FAIL"
    gain = f"{found['speedup']:.2f}x" if found["speedup"] else ""
    words = f"{found['problem']} {found['reason'][:90]}" if found["problem"] else ""
    return f"  {mark}{found['id']:36} expected {found['expected']:34} got {found['got']:18} {gain:8} {words}"


def summarise(found: list[dict[str, Any]], wanted: int) -> int:
    """The table and the exit code."""
    judged = [one for one in found if "skipped" not in one]
    failed = [one for one in judged if one["problem"] and not one["gap"]]
    print("\nNot as expected:" if failed else "\nEverything as expected.")
    for one in failed:
        print(line(one))
    for kind in SampleKind:
        of_kind = [one for one in judged if one["kind"] == kind.value]
        good = sum(not one["problem"] for one in of_kind)
        print(
            f"{kind.value}: {good} of {len(of_kind)} as expected, {sum(bool(one['gap']) for one in of_kind)} known gaps"
        )
    seconds = sum(one["seconds"] for one in judged)
    print(
        f"{len(found)} of {wanted} samples, {len(found) - len(judged)} not for this device or sandbox, {seconds:.0f} s"
    )
    return 1 if failed else 3 if len(found) < wanted else 0


if __name__ == "__main__":
    sys.exit(main())
