"""How long a journal of a million events takes to open, to read, and to be summed up, with and without a checkpoint.

Run `python benchmarks/journal_open.py [--events N] [--repeats N] [--folder DIR]`; prints one JSON object, medians in
seconds. The journal is that of one run: steps of six events, each candidate 2,000 characters, all texts in their rows
(the benchmark is not about files). The folder decides which disk is measured. Needs only `pike`.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pike.core.device import DeviceFacts
from pike.core.events import (
    Asked,
    Event,
    Judged,
    Proposed,
    QueryAnswered,
    QuerySent,
    Resumed,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer, Query
from pike.core.settings.config import RunConfig
from pike.core.step import Candidate, Role, Step
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, OutputError, Status, Timing, Weights
from pike.reporting.campaign import figures_of_run
from pike.store import Journal, read

BATCH = 6_000
CODE = "class ModelNew: ...\n" * 100


def events() -> Iterator[Event]:
    yield RunStarted(
        Task("demo/x", "X", TaskKind.SOURCE, "class Model: ...", "x.py"), RunConfig(), DeviceFacts("cpu", "none"), "0"
    )
    number = 0
    while True:
        yield Asked(Step(number, Role.OPTIMISE, number // 10, number % 10))
        query = Query(number, Role.OPTIMISE, "system " * 40, "prompt " * 60, 0.8, 32_000)
        yield QuerySent(query, 1, "m", 0.5, 33_000)
        yield QueryAnswered(number, 1, Answer("text " * 80, usd=0.01, input_tokens=3000, output_tokens=2000))
        yield Proposed(number, Candidate(f"c{number}", f"# {number}\n{CODE}"))
        yield Judged(f"c{number}", verdict(number))
        yield Told(number, f"c{number}")
        number += 1


def verdict(number: int) -> Evaluation:
    if number % 3 == 0:
        return Evaluation(Status.WRONG_OUTPUT, "output 0 is off by 0.3")
    speedup = 1.0 + (number * 7919 % 1000) / 1000
    timing = Timing(10.0, 10.0 / speedup, speedup, (0.98 * speedup, 1.02 * speedup), 10, 100, 0.0)
    return Evaluation(
        Status.VALID, timing=timing, error=OutputError(1e-7, 1e-8, 1e-5, 1e-6), weights=Weights.STATE_DICT
    )


def write(folder: Path, count: int) -> None:
    source = events()
    with Journal.create(folder) as journal:
        for start in range(0, count, BATCH):
            journal.append(*islice(source, min(BATCH, count - start)), durable=False)
        journal.flush()


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def opened(folder: Path) -> None:
    """Open it for writing, look at its beginning, add an event."""
    with Journal.open(folder) as journal:
        next(journal.entries())
        journal.append(Resumed("0"))


def add(folder: Path) -> None:
    with Journal.open(folder) as journal:
        journal.append(Stopped("interrupted"))


def measure(folder: Path, count: int, repeats: int) -> dict[str, object]:
    writing = seconds(lambda: write(folder, count))
    opening = [seconds(lambda: opened(folder)) for _ in range(repeats)]
    stale = []
    for _ in range(min(repeats, 2)):
        add(folder)
        stale.append(seconds(lambda: figures_of_run(folder)))
    known = [seconds(lambda: figures_of_run(folder)) for _ in range(repeats)]
    reading = seconds(lambda: sum(1 for _ in read(folder)))
    return {
        "events": count,
        "journal_mib": round((folder / "journal.sqlite").stat().st_size / 2**20),
        "write": round(writing, 1),
        "open_and_append": round(statistics.median(opening), 4),
        "figures_from_the_checkpoint": round(statistics.median(known), 4),
        "figures_where_it_is_stale": round(statistics.median(stale), 1),
        "read_every_event": round(reading, 1),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=1_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--folder", type=Path, default=Path())
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="journal-open-", dir=chosen.folder) as scratch:
        row = measure(Path(scratch) / "run", chosen.events, chosen.repeats)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}"
    about = {"benchmark": "journal_open", "machine": f"{machine}, Python {platform.python_version()}"}
    print(json.dumps({**about, "load_average": os.getloadavg(), "repeats": chosen.repeats, **row}, indent=1))


if __name__ == "__main__":
    main()
