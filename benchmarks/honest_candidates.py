"""Six honest candidates through the evaluator: each must be valid, the copy at a speedup of 1.

Run `python benchmarks/honest_candidates.py [--out FILE]` on a machine with a GPU; on a CPU the GPU ones are refused.
Needs only torch and numpy (`PYTHONPATH=src` works).
"""

import argparse
import json
from pathlib import Path

from pike.core.codec import encode
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Precision
from pike.judge.client import JudgeClient

HERE = Path(__file__).parent / "honest"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", type=Path)
    out = arguments.parse_args().out
    path = HERE / "task.py"
    task = Task("honest", "gated residual layer", TaskKind.SOURCE, path.read_text(), path.name)
    judge = JudgeClient()
    facts = judge.facts("auto")
    rows = []
    print(f"{facts.name}, {dict(facts.versions)}")
    for file in sorted(HERE.glob("[0-9]_*.py")):
        precision = Precision.HALF if "half" in file.name else Precision.SAME
        found = judge.evaluate(EvaluationRequest(task, file.read_text(), EvaluateOptions(precision=precision)))
        rows.append({"candidate": file.stem, **found.flat()})
        shown = {key: rows[-1][key] for key in ("status", "reason", "speedup", "speedup_ci95", "reference_ms",
                 "candidate_ms", "overhead_ms", "max_abs_error", "budget_max_abs", "seconds")}  # fmt: skip
        print(file.stem, json.dumps(shown))
        if not found.valid:
            print(found.log[-2000:])
    judge.close()
    if out:
        out.write_text(json.dumps({"device": encode(facts), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
