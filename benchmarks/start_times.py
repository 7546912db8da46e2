"""Seconds of one evaluation after another through one judge, with forked children and with started ones.

Run `python benchmarks/start_times.py [--rounds 5] [--device cpu] --out FILE.json`. Three small candidates: eager code,
`torch.compile`, and an inline C++ extension. The first evaluation of a judge pays for the judge, the task and the
template; the medians are of those after it. `started` holds the children at a level that forks nothing, as all did.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import FIRST_CALL, EvaluateOptions, EvaluationRequest
from pike.judge.sandbox import BareProcess

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96]
"""
CANDIDATES = {
    "eager": "class ModelNew(Model):\n    def forward(self, x):\n        return self.linear(x).relu_()\n",
    "compile": "class ModelNew(Model):\n    def __init__(self, width):\n        super().__init__(width)\n"
    "        self.call = torch.compile(super().forward)\n    def forward(self, x):\n        return self.call(x)\n",
    "inline C++": "from torch.utils.cpp_extension import load_inline\n"
    "CODE = 'at::Tensor call(at::Tensor x) { return x.relu_(); }'\n"
    "native = load_inline('native', CODE, functions=['call'])\n"
    "class ModelNew(Model):\n    def forward(self, x):\n        return native.call(self.linear(x))\n",
}


def measure(device: str, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of the first evaluation and the median of the others, for each kind of candidate."""
    from pike.judge.judge import Judge

    found = {}
    task = Task("small", "a linear layer", TaskKind.SOURCE, MODEL, "small.py", None, ())
    options = EvaluateOptions(device=device, sandbox="process", threads=1, max_timing_seconds=0.4, correctness_seeds=2)
    for kind, source in CANDIDATES.items():
        judge = Judge()
        seconds, calls = [], []
        for number in range(rounds + 1):
            begun = time.monotonic()
            verdict = judge.evaluate(EvaluationRequest(task, f"{MODEL}\n# {number}\n{source}", options))
            assert verdict.valid, (kind, verdict.status, verdict.reason, verdict.log)
            seconds.append(time.monotonic() - begun)
            calls.append(dict(verdict.seconds)[FIRST_CALL])
            print(kind, number, f"{seconds[-1]:.2f} s, first call {calls[-1]:.2f} s", file=sys.stderr, flush=True)
        judge.close()
        found[kind] = {
            "first": seconds[0],
            "next": statistics.median(seconds[1:]),
            "first call of the next": statistics.median(calls[1:]),
        }
    return found


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--one", choices=["forked", "started"], help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        BareProcess.forks = given.one == "forked"
        print(json.dumps(measure(given.device, given.rounds)))
        return
    command = [
        sys.executable,
        __file__,
        "--device",
        given.device,
        "--rounds",
        str(given.rounds),
        "--out",
        str(given.out),
    ]
    found = {}
    for way in ("forked", "started"):
        done = subprocess.run([*command, "--one", way], stdout=subprocess.PIPE, text=True, check=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
        for kind, seconds in found[way].items():
            print(way, kind, {name: round(value, 2) for name, value in seconds.items()}, flush=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
