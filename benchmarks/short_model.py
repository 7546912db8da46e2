"""How steady the verdict on a model is that takes less time than its hand-over: one candidate, judged again and again.

Run `python benchmarks/short_model.py [--repeats 40]` on an idle machine. Reference: a linear layer, row by row.
Candidate: the same layer at once. Prints how many verdicts were not `valid`, and the quartiles and extremes of the
candidate's milliseconds and of the speedup.
"""

import argparse
import collections
import json

import numpy as np
import torch

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.judge.client import JudgeClient

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.stack([self.linear(row) for row in x])


def get_inputs():
    return [torch.randn(256, 16)]


def get_init_inputs():
    return []
"""
CANDIDATE = SOURCE.replace("class Model(", "class ModelNew(").replace(
    "torch.stack([self.linear(row) for row in x])", "self.linear(x)"
)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--repeats", type=int, default=40)
    arguments.add_argument("--device", default="cpu")
    given = arguments.parse_args()
    options = EvaluateOptions(device=given.device, threads=1, max_timing_seconds=1.5, correctness_seeds=1)
    task = Task("rows", "a linear layer row by row", TaskKind.SOURCE, SOURCE, "rows.py")
    judge = JudgeClient()
    machine = judge.facts(given.device).name
    found = [judge.evaluate(EvaluationRequest(task, CANDIDATE, options)) for _ in range(given.repeats)]
    judge.close()
    timings = [verdict.timing for verdict in found if verdict.timing]
    result = {
        "machine": machine,
        "torch": torch.__version__,
        "statuses": collections.Counter(verdict.status.value for verdict in found),
        "candidate_ms": spread([timing.candidate_ms for timing in timings]),
        "speedup": spread([timing.speedup for timing in timings]),
        "overhead_ms": spread([timing.overhead_ms for timing in timings]),
    }
    print(json.dumps(result))


def spread(values: list[float]) -> list[float]:
    """Least, quartiles and largest."""
    return [float(f"{value:.3g}") for value in np.percentile(values, [0, 25, 50, 75, 100])]


if __name__ == "__main__":
    main()
