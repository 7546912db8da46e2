"""What strategies have after so many queries, measured again side by side, for `docs/experiments/*cpu-queries.md`.

Run `python benchmarks/queries_beside.py ARCHIVE [OUT.json] [--cuts 5 10 15 20 25] [--device cpu]` in quiet. ARCHIVE
holds a campaign. Of each run, the fastest valid candidate that the search had after each cut is chosen by the search's
own times, which the first table shows, with the speedups of the best composition and of the first answer. With OUT, all
that are chosen of one task are timed in the same sessions at final effort. OUT gets every time; the second table shows
them, and below it the ratio of `best-of-n` to each other strategy. Runs of fewer queries than a cut are left out of it.
"""

import argparse
import json
import statistics
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pages.markdown import table

from pike import store
from pike.core.events import Admitted, Judged, Proposed, RunStarted
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest
from pike.judge.client import JudgeClient

CHANCE = "best-of-n"
Chosen = dict[tuple[str, int], str]


def main() -> None:
    """Choose, measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("archive", type=Path)
    arguments.add_argument("out", type=Path, nargs="?")
    arguments.add_argument("--cuts", type=int, nargs="+", default=[5, 10, 15, 20, 25])
    arguments.add_argument("--device", default="cpu")
    given = arguments.parse_args()
    chosen: dict[str, Chosen] = defaultdict(dict)
    terms: dict[str, tuple[Task, EvaluateOptions]] = {}
    searched: list[list[str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(given.archive) as packed:
            packed.extractall(scratch, filter="data")
        for file in sorted(Path(scratch).rglob("journal.sqlite")):
            strategy = file.parent.name.split("--")[1]
            events = [entry.event for entry in store.read(file.parent)]
            start = next(event for event in events if isinstance(event, RunStarted))
            terms[start.task.id] = start.task, start.config.evaluate
            times = dict.fromkeys(given.cuts, "")
            for cut, source, ms in best_after(events, given.cuts):
                chosen[start.task.id][strategy, cut] = source
                times[cut] = f"{1e3 * ms:.4g}"
            searched.append([start.task.id, strategy, *first_speedups(events), *times.values()])
    heads = ["us in the search", "strategy", "best composition", "first answer", *map(str, given.cuts)]
    print(table(heads, searched), "\n")
    if given.out is None:
        return
    found = {task: measured(*terms[task], chosen[task], given.device) for task in chosen}
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    show(found, given.cuts)


def best_after(events: list[object], cuts: list[int]) -> Iterator[tuple[int, str, float]]:
    """For each number of queries that the run spent, what was fastest by the search's own times, and its time in ms."""
    times = {name: found.candidate_ms for name, found in verdicts_of(events).items() if found.valid}
    asked = [event.candidate for event in events if isinstance(event, Proposed)]
    for cut in cuts:
        valid = [(ms, one.source) for one in asked[:cut] if (ms := times.get(one.id)) is not None]
        if len(asked) >= cut and valid:
            ms, source = min(valid)
            yield cut, source, ms


def first_speedups(events: list[object]) -> tuple[str, str]:
    """The speedups of the run's best composition and of its first answer, in its search."""
    composed = [event.evaluation.speedup or 0.0 for event in events if isinstance(event, Admitted)]
    first = next(event.candidate.id for event in events if isinstance(event, Proposed))
    answered = verdicts_of(events)[first].speedup or 0.0
    return f"{max(composed):.2f}x" if composed else "", f"{answered:.2f}x"


def verdicts_of(events: list[object]) -> dict[str, Evaluation]:
    """The search's verdicts by the candidate's id."""
    judged = [event for event in events if isinstance(event, Judged) and event.effort is Effort.SEARCH]
    return {event.candidate_id: event.evaluation for event in judged}


def measured(task: Task, options: EvaluateOptions, chosen: Chosen, device: str) -> list[dict[str, object]]:
    """Every choice with its time and speedup, each source timed once, all in the same sessions."""
    sources = list(dict.fromkeys(chosen.values()))
    options = replace(options, device=device, max_timing_seconds=8.0)
    requests = [EvaluationRequest(task, source, options, Effort.FINAL) for source in sources]
    with closing(JudgeClient()) as judge:
        verdicts = dict(zip(sources, judge.evaluate_together(requests), strict=True))
    return [
        {
            "strategy": strategy,
            "queries": cut,
            "status": verdicts[source].status.value,
            "ms": verdicts[source].candidate_ms,
            "speedup": verdicts[source].speedup,
            "labels": list(verdicts[source].labels),
        }
        for (strategy, cut), source in chosen.items()
    ]


def show(found: dict[str, list[dict[str, object]]], cuts: list[int]) -> None:
    """Print microseconds of every choice, and the geomean of the ratios to `best-of-n`."""
    times = {
        (task, str(row["strategy"]), int(str(row["queries"]))): 1e3 * float(str(row["ms"]))
        for task, rows in found.items()
        for row in rows
        if row["ms"] is not None
    }
    strategies = sorted({strategy for _, strategy, _ in times})
    rows = [
        [task, strategy, *(f"{times[key]:.4g}" if (key := (task, strategy, cut)) in times else "" for cut in cuts)]
        for task in found
        for strategy in strategies
    ]
    print(table(["us after queries", "strategy", *map(str, cuts)], rows))
    for strategy in strategies:
        for cut in cuts:
            pairs = [(times.get((task, CHANCE, cut)), times.get((task, strategy, cut))) for task in found]
            ratios = [chance / mine for chance, mine in pairs if chance and mine]
            if strategy != CHANCE and ratios:
                mean = statistics.geometric_mean(ratios)
                print(f"{strategy} after {cut}: {mean:.2f} times as fast as {CHANCE} on {len(ratios)} tasks")


if __name__ == "__main__":
    main()
