"""How much of their time several judges spend waiting for the lock of one device, and what they get done.

Run `PYTHONPATH=src python3 benchmarks/device_lock.py --workers 6 --precision half` on a GPU machine, or with
`--device cpu --workers 2 --tasks level3-pike/6:small level3-pike/31:small --baselines eager` for a smoke test. Each
judge is a process of its own. All take baselines of the tasks from one queue, in a drawn order. `--no-yield` lets no
sharer yield to a timer, and `--no-pause` pauses no warm process while a judge waits. An evaluation without device
memory is tried again alone at the end, as a scheduler does. The last line is JSON.
"""

import argparse
import json
import math
import multiprocessing
import queue
import random
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pike import tasks
from pike.baselines import BASELINES, source
from pike.core.verdict.evaluation import DEVICE_MEMORY, LOCK_WAIT, Effort, EvaluateOptions, EvaluationRequest, Precision
from pike.judge.judge import Judge
from pike.judge.processes import become_subreaper, kill_strays
from pike.judge.timing.device_lock import DeviceLock, Pause


@dataclass(frozen=True)
class Row:
    """One evaluation."""

    worker: int
    task: str
    baseline: str
    status: str
    seconds: float
    waited: float
    starved: bool


def lock_of(device: str, pause: Pause, pauses: bool, yields: bool) -> DeviceLock:
    """The lock of a device, with parts of it turned off."""
    return DeviceLock(device, pause if pauses else nullcontext, **({} if yields else {"slice_seconds": math.inf}))


def work(worker: int, given: argparse.Namespace, waiting: Any, rows: Any) -> None:
    """Judge what waits until nothing does, then hand back all memory."""
    become_subreaper()
    judge = Judge(lock_of=partial(lock_of, pauses=not given.no_pause, yields=not given.no_yield))
    judge.facts(given.device)
    rows.put(worker)
    try:
        while True:
            name, baseline, request = waiting.get()
            if request is None:
                return
            began = time.monotonic()
            found = judge.evaluate(request)
            seconds = time.monotonic() - began
            kill_strays(judge.keep_pids())
            waited = dict(found.seconds)[LOCK_WAIT]
            rows.put(Row(worker, name, baseline, found.status.value, seconds, waited, DEVICE_MEMORY in found.labels))
    finally:
        judge.close()


def requests(given: argparse.Namespace) -> list[tuple[str, str, EvaluationRequest]]:
    """Every baseline of every task, in a drawn order; tasks of one suite where none are named."""
    baselines = [baseline for baseline in BASELINES if baseline.name in given.baselines.split(",")]
    options = EvaluateOptions(
        device=given.device,
        precision=Precision(given.precision),
        timeout_seconds=given.timeout,
        max_timing_seconds=given.seconds,
        lint=False,
    )
    names = given.tasks or [entry.name for entry in tasks.load_suite("level3-pike").entries]
    made = []
    for name in names:
        task = tasks.resolve(name)
        for baseline in baselines:
            text = source(baseline, task, options.precision)
            made.append((name, baseline.name, EvaluationRequest(task, text, options, Effort.SEARCH)))
    return random.Random(given.seed).sample(made, len(made))


def judged(
    given: argparse.Namespace, wanted: list[tuple[str, str, EvaluationRequest]], workers: int
) -> tuple[list[Row], float]:
    """All rows of so many workers, and the seconds from the moment when all were ready."""
    context = multiprocessing.get_context("spawn")
    waiting, rows = context.Queue(), context.Queue()
    processes = [context.Process(target=work, args=(number, given, waiting, rows)) for number in range(workers)]
    for process in processes:
        process.start()
    for _ in processes:
        rows.get()
    began = time.monotonic()
    for one in [*wanted, *[("", "", None)] * workers]:
        waiting.put(one)
    found = []
    while len(found) < len(wanted):
        try:
            found.append(rows.get(timeout=5.0))
            print(json.dumps(vars(found[-1])), flush=True)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                raise SystemExit("every worker ended before the work did") from None
    seconds = time.monotonic() - began
    for process in processes:
        process.join()
    return found, seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--workers", type=int, default=6)
    arguments.add_argument("--tasks", nargs="*", help="by default every task of level3-pike")
    arguments.add_argument("--baselines", default="eager,cuda-graph,compile")
    arguments.add_argument("--precision", default="half", choices=[precision.value for precision in Precision])
    arguments.add_argument("--timeout", type=float, default=300.0)
    arguments.add_argument("--seconds", type=float, default=1.5, help="evaluate.max_timing_seconds")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--no-yield", action="store_true")
    arguments.add_argument("--no-pause", action="store_true")
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    wanted = requests(given)
    rows, seconds = judged(given, wanted, given.workers)
    starved = {(row.task, row.baseline) for row in rows if row.starved}
    alone = [(*key, replace(request, alone=True)) for *key, request in wanted if tuple(key) in starved]
    again, alone_seconds = judged(given, alone, 1) if alone else ([], 0.0)
    shares = {}
    for worker in range(given.workers):
        mine = [row for row in rows if row.worker == worker]
        shares[worker] = round(sum(row.waited for row in mine) / max(sum(row.seconds for row in mine), 1e-9), 3)
    summary = {
        "device": Judge().facts(given.device).name,
        "yields": not given.no_yield,
        "pauses": not given.no_pause,
        "seconds": round(seconds, 1),
        "per_hour": round(3600 * len(rows) / seconds, 1),
        "waiting_share": round(sum(row.waited for row in rows) / sum(row.seconds for row in rows), 3),
        "waiting_share_of_worker": shares,
        "without_memory": len(alone),
        "alone_seconds": round(alone_seconds, 1),
        "statuses": Counter(row.status for row in [*(row for row in rows if not row.starved), *again]),
    }
    if given.out:
        given.out.write_text(json.dumps({**summary, "rows": [vars(row) for row in [*rows, *again]]}, indent=1))
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
