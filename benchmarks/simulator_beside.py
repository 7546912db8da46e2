"""What the simulator says beside what a real campaign's journals show, at the same presets and budgets.

Run `python benchmarks/simulator_beside.py FOLDER [--repeats 30]`: FOLDER holds the runs of a campaign, one a task
and preset. `--valid-odds` and `--insight` make the simulated model a stronger one (`pike.simulate.Model`). Gains are
logarithms of the original's time over a candidate's; a task's original counts as the median of all its measurements,
because it varies more on a GPU than candidates do. The simulator draws as many tasks as the campaign has, many times
over, so that its interval is that of one such campaign. Prints a table in Markdown.
"""

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pike import store
from pike.core.events import Judged, QueryAnswered, RunStarted
from pike.core.settings.config import StrategyConfig
from pike.core.verdict.evaluation import Effort
from pike.simulate import Conditions, Parameters, fitted, suite
from pike.simulate.study import TASKS, simulate

Figures = dict[str, float]


def main() -> None:
    """Print what both say."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--repeats", type=int, default=30)
    arguments.add_argument("--valid-odds", type=float, default=0.0)
    arguments.add_argument("--insight", type=float, default=1.0)
    given = arguments.parse_args()
    parameters = fitted()
    strong = replace(parameters.strong, valid_odds=given.valid_odds, insight=given.insight)
    parameters = replace(parameters, strong=strong)
    found = real(given.folder)
    presets = sorted({preset for preset, _ in found})
    tasks = len({task for _, task in found})
    queries = max(int(one["queries"]) for one in found.values())
    seen = {preset: [one for (name, _), one in found.items() if name == preset] for preset in presets}
    drawn = {preset: simulated(preset, queries, given.repeats, parameters) for preset in presets}
    print(f"| preset, {queries} queries | figure | campaign of {tasks} tasks | simulator, such campaigns (95 %) |")
    print("| --- | --- | ---: | ---: |")
    for preset in presets:
        samples = campaigns(drawn[preset], tasks)
        for key, (name, text) in shown().items():
            low, middle, high = spread([name(sample) for sample in samples])
            print(f"| `{preset}` | {key} | {text(name(seen[preset]))} | {text(middle)} ({text(low)} to {text(high)}) |")
    base = "best-of-n"
    for preset in presets if base in presets else ():
        if preset != base:
            pairs = zip(campaigns(drawn[preset], tasks), campaigns(drawn[base], tasks), strict=True)
            low, middle, high = spread([math.exp(mean(one, "late") - mean(two, "late")) for one, two in pairs])
            ratio = math.exp(mean(seen[preset], "late") - mean(seen[base], "late"))
            print(f"| `{preset}` over `{base}` | geomean | {ratio:.2f}x | {middle:.2f}x ({low:.2f}x to {high:.2f}x) |")


def shown() -> dict[str, tuple[Callable[[list[Figures]], float], Callable[[float], str]]]:
    """The figures of a campaign and how they are written."""
    return {
        "answers that give a valid candidate": (lambda runs: mean(runs, "valid"), "{:.0%}".format),
        "geomean after half of the queries": (lambda runs: math.exp(mean(runs, "early")), "{:.2f}x".format),
        "geomean at the end": (lambda runs: math.exp(mean(runs, "late")), "{:.2f}x".format),
        "what the second half adds": (
            lambda runs: math.exp(mean(runs, "late") - mean(runs, "early")),
            "{:.2f}x".format,
        ),
    }


def real(folder: Path) -> dict[tuple[str, str], Figures]:
    """The figures of every run by preset and task."""
    runs = {}
    originals = defaultdict[str, list[float]](list)
    for path in sorted(path for path in folder.iterdir() if (path / "journal.sqlite").exists()):
        events = [entry.event for entry in store.read(path)]
        start = next(event for event in events if isinstance(event, RunStarted))
        judged = [one.evaluation for one in events if isinstance(one, Judged) and one.effort is Effort.SEARCH]
        valid = [(number, one) for number, one in enumerate(judged) if one.timing]
        answered = sum(isinstance(event, QueryAnswered) for event in events)
        originals[start.task.id] += [one.timing.reference_ms for _, one in valid if one.timing]
        runs[start.config.strategy.preset, start.task.id] = (start.config.budget.queries, answered, valid)
    found = {}
    for (preset, task), (queries, answered, valid) in runs.items():
        base = statistics.median(originals[task])
        gains = [(number, max(0.0, math.log(base / one.timing.candidate_ms))) for number, one in valid if one.timing]
        found[preset, task] = {
            "queries": float(queries or answered),
            "valid": len(valid) / max(answered, 1),
            "early": max((gain for number, gain in gains if number < (queries or answered) / 2), default=0.0),
            "late": max((gain for _, gain in gains), default=0.0),
        }
    return found


def simulated(preset: str, queries: int, repeats: int, parameters: Parameters) -> list[list[Figures]]:
    """For each repeat, the figures of every simulated task."""
    conditions, found = Conditions(StrategyConfig(preset), queries, queries), []
    for repeat in range(repeats):
        rows = []
        for task in suite(parameters, TASKS):
            run = simulate(conditions, task, repeat, parameters)
            programs = [point for point in run.points if point.candidate]
            early, late = run.observed(queries / 2), run.observed(queries)
            rows.append({"valid": len(programs) / max(len(run.points), 1), "early": early, "late": late})
        found.append(rows)
    return found


def campaigns(repeats: list[list[Figures]], tasks: int) -> list[list[Figures]]:
    """Every repeat in campaigns of so many tasks."""
    return [rows[at : at + tasks] for rows in repeats for at in range(0, len(rows) - tasks + 1, tasks)]


def mean(runs: list[Figures], key: str) -> float:
    """The mean of one figure."""
    return statistics.fmean(run[key] for run in runs)


def spread(values: list[float]) -> tuple[float, float, float]:
    """The middle of 95 % and the median."""
    ordered = sorted(values)
    cut = int((1 - 0.95) / 2 * len(ordered))
    return ordered[cut], statistics.median(ordered), ordered[-1 - cut]


if __name__ == "__main__":
    main()
