"""The baseline `compile`, timed after it met held-out shapes and without them.

Run `python benchmarks/held_out_shapes.py OUT.jsonl TASK ... [--repeats 2] [--device cpu] [--precision same]`. Each
verdict comes from a judge of its own, by turns at effort `final`, which tries the shapes that a task holds out, and at
`beside`, which does not. OUT gets a line for each: seconds of the first call and of all checks before timing,
milliseconds of a call, and the speedup over eager.
"""

import argparse
import json
from contextlib import closing
from pathlib import Path

from pike import baselines, tasks
from pike.core.verdict.evaluation import FIRST_CALL, Effort, EvaluateOptions, EvaluationRequest, Precision, Stage
from pike.judge.client import JudgeClient


def main() -> None:
    """Measure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("tasks", nargs="+")
    arguments.add_argument("--repeats", type=int, default=2)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", type=Precision, default=Precision.SAME)
    given = arguments.parse_args()
    options = EvaluateOptions(
        device=given.device, precision=given.precision, max_timing_seconds=1.0, timeout_seconds=400.0
    )
    for task in map(tasks.resolve, given.tasks):
        source = baselines.source(baselines.COMPILE, task, options.precision)
        for effort in (Effort.FINAL, Effort.BESIDE) * given.repeats:
            with closing(JudgeClient()) as judge:
                found = judge.evaluate(EvaluationRequest(task, source, options, effort))
            seconds = dict(found.seconds)
            row = {"task": task.id, "effort": effort.value, "status": found.status.value, "device": found.device}
            row |= {"first_call": seconds.get(FIRST_CALL), "checks": seconds.get(Stage.CORRECT.value)}
            row |= {"ms": found.candidate_ms, "speedup": found.speedup, "torch": found.torch_version}
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
