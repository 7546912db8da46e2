"""Strategy steps per second with an instant evaluator: what deciding costs, beside models and measurements nothing.

Run `python benchmarks/strategy_steps.py [--queries N] [--repeats N]`; prints one JSON object. Needs only `pike`.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time

from pike import search
from pike.core.budget import Budget
from pike.core.config import StrategyConfig
from pike.core.evaluation import Evaluation, Status, Timing
from pike.core.step import Candidate, Outcome, Role, Step

CONCURRENCY = 10
VALID_RATE = 0.4
REFUSED = Evaluation(Status.WRONG_OUTPUT, reason="wrong")


def world(step: Step) -> Outcome:
    """An instant verdict that depends on the step's place."""
    if step.role is Role.BRAINSTORM:
        return Outcome(step.id, ideas=tuple(f"idea {number}" for number in range(10)))
    draw = random.Random(hash((step.round, step.sample, step.attempt))).random
    valid = draw() < VALID_RATE
    ms = 1.0 + draw()
    evaluation = (
        Evaluation(Status.VALID, timing=Timing(2.0, ms, 2.0 / ms, (1.0, 2.0), 5, 50, 0.0)) if valid else REFUSED
    )
    return Outcome(step.id, Candidate(f"c{step.id}", "class ModelNew: ...", step.seed), evaluation)


def seconds(preset: str, queries: int) -> tuple[float, int]:
    """Time and steps of one run, the time of the world's answers taken off."""
    strategy = search.make(StrategyConfig(preset), Budget(queries=queries), run_seed=0)
    began = time.perf_counter()
    calls = search.drive(strategy, world, concurrency=CONCURRENCY)
    steps = [call for call in calls if isinstance(call, Step)]
    ended = time.perf_counter()
    for step in steps:
        world(step)
    return max(1e-9, 2 * ended - began - time.perf_counter()), len(steps)


def measure(preset: str, queries: int, repeats: int) -> dict[str, object]:
    runs = [seconds(preset, queries) for _ in range(repeats)]
    rates = [steps / taken for taken, steps in runs]
    return {
        "preset": preset,
        "queries": queries,
        "steps": runs[0][1],
        "median_steps_per_second": round(statistics.median(rates)),
        "least_steps_per_second": round(min(rates)),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queries", type=int, nargs="+", default=[300, 10_000])
    arguments.add_argument("--repeats", type=int, default=7)
    chosen = arguments.parse_args()
    rows = [measure(preset.name, queries, chosen.repeats) for preset in search.presets() for queries in chosen.queries]
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}, Python {platform.python_version()}"
    print(
        json.dumps(
            {"benchmark": "strategy_steps", "machine": machine, "repeats": chosen.repeats, "rows": rows}, indent=1
        )
    )


if __name__ == "__main__":
    main()
