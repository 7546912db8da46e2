"""How good a search is after 1, 2, 5 and 10 minutes from a cold machine, nothing known, caches empty.

Run `python benchmarks/anytime.py TASK ... --run FOLDER [--minutes 10] [--out ROWS.jsonl] [--figure CURVE.svg]`. Each
task (`demo/*`, `level3-pike/*:small`, `level5:small`, a file) is searched by a command of its own with fresh folders
for compilers' caches. Without `--run` the runs in the given folders are read, and time begins at their first event.
The last value of a curve is the best valid speedup of the search; what was measured again stands beside it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from math import log
from pathlib import Path
from statistics import geometric_mean, median

from pages.curve import Curve, drawn
from pages.markdown import table

from pike import tasks
from pike.core.events import Judged, RunStarted
from pike.core.verdict.evaluation import Effort
from pike.store import read
from pike.store.schema import FILE_NAME

CUTS = (60.0, 120.0, 300.0, 600.0)
EARLY_SECONDS, EARLY_SHARE = 120.0, 0.9
LEAST_GAIN = 1.02
"""A search that ends below this speedup had nothing to find: its first valid verdict is all of it."""
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Row:
    """One search.

    Attributes:
        began: where seconds count from: `command`, or `journal` for a run that was only read.
        seconds: until the command had ended, or until the last event.
        first_valid: seconds until the first valid verdict, None without one.
        gains: (seconds, best valid speedup so far) pairs.
        final: the speedup that was measured again, None without one.
    """

    task: str
    device: str
    precision: str
    minutes: float | None
    began: str
    seconds: float
    judged: int
    first_valid: float | None
    gains: tuple[tuple[float, float], ...]
    final: float | None

    def best(self, seconds: float) -> float:
        """The best speedup after so many seconds; 1, the original's, before there is one."""
        return max([1.0, *(speedup for at, speedup in self.gains if at <= seconds)])

    def share(self, seconds: float) -> float:
        """The part of the last value's log speedup that was reached after so many seconds."""
        last = self.best(float("inf"))
        if last < LEAST_GAIN:
            return float(self.first_valid is not None and self.first_valid <= seconds)
        return log(self.best(seconds)) / log(last)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("what", nargs="+", help="tasks or patterns of tasks with --run, otherwise folders of runs")
    arguments.add_argument("--run", type=Path, help="search, with the runs in this folder")
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--precision", default="same")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--set", action="append", default=[], help="a setting, as for pike optimize")
    arguments.add_argument("--label", default="", help="names the machine in the figure")
    arguments.add_argument("--out", type=Path, help="JSON lines, appended to as searches end")
    arguments.add_argument("--figure", type=Path)
    given = arguments.parse_args()
    rows = []
    for row in searched(given) if given.run else (row_of(folder) for folder in folders(given.what)):
        rows.append(row)
        first = "none valid" if row.first_valid is None else f"first valid {row.first_valid:.0f} s"
        print(f"{row.task}: {first}, {row.best(1e9):.2f}x of {row.judged}, ended {row.seconds:.0f} s", flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print(summary(rows))
    if given.figure:
        given.figure.write_text(figure(rows, given.label))


def searched(given: argparse.Namespace) -> Iterator[Row]:
    """Search each task, one after the other."""
    given.run.mkdir(parents=True, exist_ok=True)
    for name in [name for pattern in given.what for name in matching(pattern)]:
        folder = given.run / name.replace("/", "-").replace(":", "-").replace(".py", "")
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pike", "optimize", name, "--strategy", "recipes", "--out", str(folder)]
        command += ["--max-minutes", str(given.minutes), "--precision", given.precision, "--device", given.device]
        command += [part for setting in given.set for part in ("--set", setting)]
        with tempfile.TemporaryDirectory(prefix="anytime-") as empty:
            places = {key: f"{empty}/{key}" for key in CACHES}
            began = time.time()
            with (given.run / f"{folder.name}.log").open("w") as log_file:
                subprocess.run(command, env=os.environ | places, stdout=log_file, stderr=subprocess.STDOUT)
            ended = time.time()
        if (folder / FILE_NAME).exists():
            yield row_of(folder, began, ended)
        else:
            print(f"{name}: no run, see {folder.name}.log", flush=True)


def matching(pattern: str) -> list[str]:
    """The tasks that a pattern such as `demo/*` or `level3-pike/*:small` stands for."""
    name, small = pattern.removesuffix(":small"), ":small" * pattern.endswith(":small")
    suite, _, rest = name.partition("/")
    if "*" not in rest and rest:
        return [pattern]
    return [f"{task.id}{small}" for task in tasks.in_suite(suite) if fnmatch(task.id, f"{suite}/{rest or '*'}")]


def folders(places: Sequence[str]) -> list[Path]:
    """The run folders among and below these."""
    return [journal.parent for place in places for journal in sorted(Path(place).rglob(FILE_NAME))]


def row_of(folder: Path, began: float | None = None, ended: float | None = None) -> Row:
    """What a run's journal says."""
    entries = list(read(folder))
    started = entries[0].event
    assert isinstance(started, RunStarted)
    zero, gains, best, first, judged, finals = began or entries[0].at_seconds, [], 0.0, None, 0, [0.0]
    for entry in entries:
        if not isinstance(entry.event, Judged):
            continue
        speedup = entry.event.evaluation.speedup or 0.0
        if entry.event.effort is Effort.FINAL:
            finals.append(speedup)
            continue
        judged += 1
        if speedup > best:
            best, first = speedup, first if first is not None else round(entry.at_seconds - zero, 1)
            gains.append((round(entry.at_seconds - zero, 1), round(speedup, 4)))
    hours = started.config.engine.max_hours
    return Row(
        started.task.id,
        started.device.name,
        started.config.evaluate.precision.value,
        None if hours is None else round(60 * hours, 2),
        "command" if began else "journal",
        round((ended or entries[-1].at_seconds) - zero, 1),
        judged,
        first,
        tuple(gains),
        round(max(finals), 4) or None,
    )


def summary(rows: Sequence[Row]) -> str:
    """The table over all searches, and the shares that are aimed at."""
    if not rows:
        return "no run"
    lines = [
        [
            f"{cut / 60:.0f} min",
            f"{geometric_mean(row.best(cut) for row in rows):.3f}x",
            f"{median(row.share(cut) for row in rows):.0%}",
            f"{sum(row.share(cut) >= EARLY_SHARE for row in rows)} of {len(rows)}",
        ]
        for cut in CUTS
    ]
    first = sorted(row.first_valid for row in rows if row.first_valid is not None)
    early = sum(row.share(EARLY_SECONDS) >= EARLY_SHARE for row in rows) / len(rows)
    words = f"first valid verdict: median {median(first):.0f} s, last {first[-1]:.0f} s" if first else "none valid"
    late = [row.seconds - 60.0 * row.minutes for row in rows if row.minutes is not None]
    over = f"; ended at most {max(late):.0f} s after the limit" if late else ""
    return (
        table(["after", "geomean of the best", "median share of the log speedup", "tasks at 90 %"], lines)
        + f"\n\n{len(rows)} tasks, {len(first)} with a valid verdict; {words}{over}\n"
        + f"{early:.0%} of the tasks had 90 % of their log speedup after 2 minutes"
    )


def figure(rows: Sequence[Row], label: str) -> str:
    """The shares over time: each search, and the mean of all."""
    end = max(CUTS[1], max(row.seconds for row in rows))
    times = [end * step / 300 for step in range(301)]
    each = [Curve([(at, row.share(at)) for at in times]) for row in rows]
    mean = Curve([(at, sum(row.share(at) for row in rows) / len(rows)) for at in times], strong=True)
    title = f"Share of the search's log speedup over seconds since the command began, {len(rows)} tasks"
    return drawn(title, label or rows[0].device, [*each, mean])


if __name__ == "__main__":
    main()
