"""Profiles of the six honest candidates: what runs, for how long, and the labels expected of each.

Run `python benchmarks/profiles.py [--out FILE]`; on a CPU the candidates that need a GPU are refused and left out.
Needs only torch and numpy (`PYTHONPATH=src` works). Exit code 1 if a profile is missing or a label is not as expected.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Precision
from pike.judge.client import JudgeClient
from pike.judge.profile.labels import HALF_KERNELS, NO_CUSTOM_KERNEL, USES_GRAPH

HERE = Path(__file__).parent / "honest"
EXPECTED = {
    "1_eager_copy": {NO_CUSTOM_KERNEL},
    "3_half": {NO_CUSTOM_KERNEL, HALF_KERNELS},
    "4_cuda_graph": {USES_GRAPH},
}
UNEXPECTED = {
    "2_compile": {NO_CUSTOM_KERNEL},
    "5_inline_cuda": {NO_CUSTOM_KERNEL, USES_GRAPH},
    "6_triton": {NO_CUSTOM_KERNEL, USES_GRAPH},
}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path)
    out = arguments.parse_args().out
    path = HERE / "task.py"
    task = Task("honest", "gated residual layer", TaskKind.SOURCE, path.read_text(), path.name)
    judge = JudgeClient()
    on_cuda = judge.facts("auto").is_cuda
    rows: list[dict[str, Any]] = []
    for file in sorted(HERE.glob("[0-9]_*.py")):
        precision = Precision.HALF if "half" in file.name else Precision.SAME
        options = EvaluateOptions(precision=precision, max_timing_seconds=4.0)
        found = judge.evaluate(EvaluationRequest(task, file.read_text(), options, profile=True))
        rows.append({"candidate": file.stem, "problem": problem(file.stem, found, on_cuda), **found.flat()})
        show(rows[-1])
    judge.close()
    if out:
        out.write_text(json.dumps(rows, indent=1))
    return int(any(row["problem"] for row in rows))


def problem(name: str, found: Evaluation, on_cuda: bool) -> str:
    """What is not as expected, empty where nothing is or where the candidate does not run here."""
    if not found.valid:
        return f"refused: {found.status.value}" if on_cuda else ""
    if found.profile is None or not found.profile.hotspots:
        return "no profile"
    expected = EXPECTED.get(name, set()) - (set() if on_cuda else {HALF_KERNELS})
    missing, wrong = expected - set(found.labels), UNEXPECTED.get(name, set()) & set(found.labels)
    return "".join([f"without {label} " for label in sorted(missing)] + [f"with {label} " for label in sorted(wrong)])


def show(row: dict[str, Any]) -> None:
    """One candidate on the terminal."""
    print(f"{row['candidate']}: {row['status']}, {row['candidate_ms']} ms, {row['labels']} {row['problem']}".rstrip())
    profile = row["profile"]
    if profile is None:
        return
    figures = ("busy_share", "launches", "peak_bytes", "bytes_per_second", "operations_per_second", "note")
    print("  " + ", ".join(f"{name} {profile[name]}" for name in figures))
    print(f"  profiled in {row['seconds']['profile']} s")
    for hotspot in profile["hotspots"]:
        print(f"  {hotspot['share']:6.1%} {hotspot['calls']:6.4g} {hotspot['name']}")


if __name__ == "__main__":
    sys.exit(main())
