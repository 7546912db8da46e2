"""Durable journal appends per second, by size of the text, and how long a long journal takes to open.

Run `python benchmarks/journal_writes.py [--folder DIR] [--entries N]`; prints one JSON object. The folder decides which
disk is measured (default: the current directory); `--entries` is the length of the long journal, 0 leaves it out. Needs
only `pike`.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

from pike.core.events import Proposed, Told
from pike.core.step import Candidate
from pike.store import Journal, read

BATCH = 10_000


def writes(folder: Path, characters: int, appends: int) -> dict[str, object]:
    """Appends of a candidate and an outcome, one transaction each, every text new."""
    taken = []
    with Journal.create(folder) as journal:
        for number in range(appends):
            text = f"{number:012}" + "x" * max(0, characters - 12)
            events = Proposed(number, Candidate(f"c{number}", text)), Told(number, f"c{number}")
            began = time.perf_counter()
            journal.append(*events)
            taken.append(time.perf_counter() - began)
    return {
        "text_characters": characters,
        "in_a_blob": characters > 512,
        "appends_per_second": round(appends / sum(taken), 1),
        "median_ms": round(statistics.median(taken) * 1e3, 3),
        "p99_ms": round(sorted(taken)[int(0.99 * len(taken))] * 1e3, 3),
    }


def opening(folder: Path, entries: int) -> dict[str, object]:
    """How long a journal of many entries takes to open, to its first entry, and to read whole."""
    with Journal.create(folder) as journal:
        for start in range(0, entries, BATCH):
            journal.append(*(Told(number, f"c{number}") for number in range(start, min(start + BATCH, entries))))
    began = time.perf_counter()
    with Journal.open(folder) as journal:
        opened = time.perf_counter()
        next(journal.entries())
        first = time.perf_counter()
    whole = time.perf_counter()
    count = sum(1 for _ in read(folder))
    return {
        "entries": count,
        "open_ms": round((opened - began) * 1e3, 2),
        "first_entry_ms": round((first - opened) * 1e3, 2),
        "entries_read_per_second": round(count / (time.perf_counter() - whole)),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, default=Path())
    arguments.add_argument("--appends", type=int, default=300)
    arguments.add_argument("--entries", type=int, default=100_000)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="journal-writes-", dir=chosen.folder) as scratch:
        rows = [writes(Path(scratch) / str(size), size, chosen.appends) for size in (100, 5_000, 100_000)]
        long = opening(Path(scratch) / "long", chosen.entries) if chosen.entries else None
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}"
    print(json.dumps({"benchmark": "journal_writes", "machine": machine, "rows": rows, "long_journal": long}, indent=1))


if __name__ == "__main__":
    main()
