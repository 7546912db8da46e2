"""Is equal called equal where a call is short? Pairs of models of 20 to 200 microseconds whose true ratio is known.

Run `python benchmarks/equal_pairs.py [--pairs 300] [--planted 100] [--effort search] [--device cpu] --out FILE.json`.
An equal pair is the reference judged as its own candidate: one that is called faster is a mistake. A planted pair
leaves out a tenth of the reference's equal steps. The steps are few, so that a call lasts 20 to 200 us; on a GPU, where
starting one takes 15 us, ten are the most. Prints, for
each number of steps and in all: the share called faster, the share of ratios within 3 % of the truth, and the ratios'
spread. A second call with the same file goes on where the first one stopped.
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np
import torch

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, EvaluationRequest
from pike.judge.client import JudgeClient

STEPS, STEPS_ON_A_GPU = (10, 20, 40, 80), (1, 3, 6, 10)
GAIN, NEAR = 0.1, 0.03
SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(32) * 0.5)

    def forward(self, x):
        for _ in range(STEPS):
            y = x @ self.weight
        return y


def get_inputs():
    return [torch.randn(8, 32)]


def get_init_inputs():
    return []
"""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--pairs", type=int, default=300)
    arguments.add_argument("--planted", type=int, default=100, help="pairs with a planted gain of a tenth")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--effort", type=Effort, choices=list(Effort), default=Effort.SEARCH)
    arguments.add_argument("--seconds", type=float, default=20.0, help="evaluate.max_timing_seconds")
    arguments.add_argument("--most-minutes", type=float, default=60.0)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    lengths = STEPS if given.device == "cpu" else STEPS_ON_A_GPU
    tenths = [steps for steps in lengths if steps % 10 == 0]
    wanted = [(lengths[number % len(lengths)], "equal") for number in range(given.pairs)]
    wanted += [(tenths[number % len(tenths)], "planted") for number in range(given.planted)]
    for row in rows:
        wanted.remove((row["steps"], row["kind"]))
    random.Random(0).shuffle(wanted)
    options = EvaluateOptions(
        device=given.device, threads=1, max_timing_seconds=given.seconds, correctness_seeds=1, lint=False
    )
    judge, until = JudgeClient(), time.monotonic() + 60 * given.most_minutes
    machine = judge.facts(given.device).name
    wanted.sort(key=lambda pair: pair[0])  # a judge keeps one task ready
    parts = [wanted[begin::5] for begin in range(5)]  # but no number of steps has one quiet quarter of an hour
    for steps, kind in (pair for part in parts for pair in part):
        if time.monotonic() > until:
            break
        rows.append({"steps": steps, "kind": kind} | measured(judge, steps, kind, options, given.effort))
        terms = {"machine": machine, "torch": torch.__version__, "effort": given.effort.value, "seconds": given.seconds}
        given.out.write_text(json.dumps(terms | {"summary": summed(rows), "rows": rows}))
    judge.close()
    print(json.dumps(summed(rows), indent=1))


def measured(judge: JudgeClient, steps: int, kind: str, options: EvaluateOptions, effort: Effort) -> dict[str, object]:
    """One verdict as a row."""
    task = Task(f"steps-{steps}", "equal steps", TaskKind.SOURCE, SOURCE.replace("STEPS", str(steps)), "steps.py")
    left = round(steps * (1.0 - GAIN)) if kind == "planted" else steps
    text = SOURCE.replace("STEPS", str(left)).replace("class Model(", "class ModelNew(")
    verdict = judge.evaluate(EvaluationRequest(task, text, options, effort))
    if verdict.timing is None:
        return {"status": verdict.status.value, "reason": verdict.reason}
    timing = verdict.timing
    return {
        "status": "valid",
        "ratio": timing.speedup * left / steps,
        "ci95": timing.speedup_ci95,
        "faster": timing.faster,
        "reference_ms": timing.reference_ms,
        "overhead_ms": timing.overhead_ms,
        "blocks": timing.blocks,
        "calls": timing.calls,
        "contention": timing.contention,
    }


def summed(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Shares and spreads for each kind and number of steps; steps 0 stands for all."""
    found = []
    for kind in ("equal", "planted"):
        for steps in (*sorted({row["steps"] for row in rows}), 0):
            some = [row for row in rows if row["kind"] == kind and steps in (row["steps"], 0)]
            valid = [row for row in some if row["status"] == "valid"]
            if not valid:
                continue
            ratios = np.array([row["ratio"] for row in valid])
            found.append(
                {
                    "kind": kind,
                    "steps": steps,
                    "pairs": len(some),
                    "valid": len(valid),
                    "faster": round(sum(bool(row["faster"]) for row in valid) / len(valid), 3),
                    "within_3_percent": round(float((abs(ratios - 1.0) <= NEAR).mean()), 3),
                    "ratio": [
                        float(f"{value:.3f}") for value in np.percentile(ratios, [0, 2.5, 25, 50, 75, 97.5, 100])
                    ],
                    "reference_us": round(1e3 * float(np.median([row["reference_ms"] for row in valid]))),
                    "overhead_us": round(1e3 * float(np.median([row["overhead_ms"] for row in valid]))),
                    "blocks": float(np.median([row["blocks"] for row in valid])),
                }
            )
    return found


if __name__ == "__main__":
    main()
