"""What kept compile caches save: the same candidates judged three times by one judge, once by one that keeps its
caches together with it, and once by a stranger.

Run `python benchmarks/kept_caches.py [--device cpu] [--sandbox auto]`. Prints, for a `torch.compile` candidate and an
inline C++ extension, the seconds of build, load and correctness together; the first time nothing is kept.
"""

import argparse
import json

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.judge.client import JudgeClient, SharedCaches

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.LayerNorm(128)) for _ in range(4)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x) + x

def get_inputs():
    return [torch.randn(256, 128)]

def get_init_inputs():
    return []
"""
COPY = SOURCE.replace("class Model(", "class ModelNew(")
CANDIDATES = {
    "torch.compile": COPY.replace("    def forward", "    @torch.compile\n    def forward"),
    "inline C++": "from torch.utils.cpp_extension import load_inline\n"
    "cpp = 'torch::Tensor add(torch::Tensor x, torch::Tensor y) { return x + y; }'\n"
    "extension = load_inline('kept', cpp, functions=['add'])\n"
    + COPY.replace("self.layers(x) + x", "extension.add(self.layers(x), x)"),
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--sandbox", default="auto")
    given = arguments.parse_args()
    options = EvaluateOptions(device=given.device, sandbox=given.sandbox, max_timing_seconds=1.0)
    task = Task("layers", "four layers", TaskKind.SOURCE, SOURCE, "layers.py")
    together = SharedCaches()
    judges = [JudgeClient(caches=together), JudgeClient(caches=together), JudgeClient()]
    for judge in judges:
        judge.preflight(EvaluationRequest(task, "", options))
    result = {
        name: [seconds(judges[place], task, source, options) for place in (0, 0, 0, 1, 2)]
        for name, source in CANDIDATES.items()
    }
    for judge in judges:
        judge.close()
    print(json.dumps(result))


def seconds(judge: JudgeClient, task: Task, source: str, options: EvaluateOptions) -> float:
    found = judge.evaluate(EvaluationRequest(task, source, options))
    assert found.valid, found.reason + found.log
    took = dict(found.seconds)
    return round(took["build"] + took["load"] + took["correct"], 2)


if __name__ == "__main__":
    main()
