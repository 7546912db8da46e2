"""Strategy steps per second with an instant evaluator: what deciding costs, beside models and measurements nothing.

Run `python benchmarks/strategy_steps.py [--queries N] [--repeats N] [--only NAME]`; prints one
JSON object. Needs `pike`, and for `pike-o` its extra `openevolve`.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Candidate, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Evaluation, Status, Timing

CONCURRENCY = 10
VALID_RATE = 0.4
REFUSED = Evaluation(Status.WRONG_OUTPUT, reason="wrong")


def valid_at(ms: float) -> Evaluation:
    return Evaluation(Status.VALID, timing=Timing(2.0, ms, 2.0 / ms, (1.0, 2.0), 5, 50, 0.0))


def world(step: Step) -> Outcome:
    """An instant verdict that depends on the step's place."""
    if step.role is Role.BRAINSTORM:
        return Outcome(step.id, ideas=tuple(f"idea {number}" for number in range(10)))
    if step.role is Role.PLAN:
        return Outcome(step.id, text="a plan")
    draw = random.Random(hash((step.round, step.sample, step.attempt))).random
    evaluation = valid_at(1.0 + draw()) if draw() < VALID_RATE else REFUSED
    return Outcome(step.id, Candidate(f"c{step.id}", "class ModelNew: ...", step.seed), evaluation)


class Timed:
    """A strategy that notes the CPU time of each ask and tell, in milliseconds."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.taken: dict[int, float] = {}

    @property
    def done(self) -> bool:
        return self._strategy.done

    def ask(self) -> Step | None:
        began = time.thread_time()
        step = self._strategy.ask()
        if step is not None:
            self.taken[step.id] = 1000 * (time.thread_time() - began)
        return step

    def tell(self, outcome: Outcome) -> None:
        began = time.thread_time()
        self._strategy.tell(outcome)
        self.taken[outcome.step_id] += 1000 * (time.thread_time() - began)

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        self._strategy.admit(candidate, evaluation)


def with_a_full_library(preset: str, solutions: int, queries: int = 300) -> dict[str, object]:
    """What each step of a run took that began with so many solutions from outside."""
    timed = Timed(search.make(StrategyConfig(preset), Budget(queries=queries), run_seed=0))
    draw = random.Random(1).random
    for number in range(solutions):
        timed.admit(Candidate(f"r-{number}", f"class ModelNew: ...  # {number}"), valid_at(1.0 + draw()))
    search.drive(timed, world, concurrency=CONCURRENCY)
    return {
        "solutions_at_the_start": solutions,
        "median_ms_with_them": round(statistics.median(timed.taken.values()), 4),
        "slowest_ms_with_them": round(max(timed.taken.values()), 4),
    }


def at_the_end(preset: str, queries: int) -> dict[str, object]:
    """What the last tenth of the steps of a run took, each for itself."""
    timed = Timed(search.make(StrategyConfig(preset), Budget(queries=queries), run_seed=0))
    search.drive(timed, world, concurrency=CONCURRENCY)
    taken = [timed.taken[step] for step in sorted(timed.taken)]
    last = taken[-max(1, len(taken) // 10) :]
    return {
        "median_ms_of_the_last_tenth": round(statistics.median(last), 4),
        "slowest_ms_of_the_last_tenth": round(max(last), 4),
    }


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
        **at_the_end(preset, queries),
        **with_a_full_library(preset, queries),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queries", type=int, nargs="+", default=[300, 10_000])
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--only", default="", help="presets whose names begin like this")
    chosen = arguments.parse_args()
    names = [preset.name for preset in search.presets() if preset.name.startswith(chosen.only)]
    rows = [measure(name, queries, chosen.repeats) for name in names for queries in chosen.queries]
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}, Python {platform.python_version()}"
    print(
        json.dumps(
            {"benchmark": "strategy_steps", "machine": machine, "repeats": chosen.repeats, "rows": rows}, indent=1
        )
    )


if __name__ == "__main__":
    main()
