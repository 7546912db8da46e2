"""What judging costs: one evaluation against the bare model run, as ratios taken in one run.

Run `python benchmarks/evaluation_overhead.py [--task demo/resnet18] [--repeats 5]`. The candidate is the reference
again. Two ratios: `call` is a call under the judge's clock, hand-over included, over a call in this process;
`evaluation` is the whole evaluation in seconds over its own timed candidate calls alone. `blocks_per_second` is how
many pairs of blocks fit into the time that the device was held alone.
"""

import argparse
import json
import statistics
import time

import torch

from pike import tasks
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.judge.client import JudgeClient
from pike.judge.reference.reference import load


def bare_ms(task, calls: int) -> float:
    """Median milliseconds of one call in this process, with fresh inputs."""
    reference = load(task)
    times = []
    with torch.no_grad():
        for seed in range(calls):
            inputs = reference.draw(seed)
            started = time.perf_counter()
            reference.model(*inputs.args, **inputs.kwargs)
            times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[3:])


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--task", default="demo/resnet18")
    arguments.add_argument("--repeats", type=int, default=5)
    given = arguments.parse_args()
    task = tasks.resolve(given.task)
    source = task.source.replace("class Model(", "class ModelNew(")
    judge = JudgeClient()
    facts = judge.facts("cpu")
    request = EvaluationRequest(task, source, EvaluateOptions(device="cpu"))
    judge.evaluate(request)  # prepares the task once, as the first candidate of a run does
    call, whole, blocks = [], [], []
    for _ in range(given.repeats):
        started = time.perf_counter()
        found = judge.evaluate(request)
        seconds = time.perf_counter() - started
        assert found.timing is not None, found.reason
        call.append((found.timing.candidate_ms + found.timing.overhead_ms) / bare_ms(task, 23))
        blocks.append(found.timing.blocks / dict(found.seconds)["time"])
        whole.append(seconds / (found.timing.calls * found.timing.candidate_ms / 1e3))
    judge.close()
    machine = {"machine": facts.name, "threads": facts.threads, "torch": torch.__version__, "task": given.task}
    ratios = {"call_ratio": statistics.median(call), "evaluation_ratio": statistics.median(whole)}
    ratios["blocks_per_second"] = statistics.median(blocks)
    print(json.dumps(machine | {name: round(ratio, 3) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main()
