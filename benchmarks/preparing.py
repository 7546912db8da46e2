"""Where the time goes that a judge takes to prepare a task.

Run `python benchmarks/preparing.py TASK ... [--device cuda] [--precision half] [--rows 40]`. Each is prepared twice
in this process, with its look for trivial answers; the first time pays for libraries and contexts too. Prints the
seconds of both times, and where the second one went.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from pathlib import Path

from pike import tasks
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.judge import device as devices
from pike.judge.lint import look_for_trivial
from pike.judge.prepared_task import PreparedTask
from pike.judge.timing.device_lock import DeviceLock


def main() -> None:
    """Prepare each task."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tasks", nargs="+")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--precision", default="half")
    arguments.add_argument("--rows", type=int, default=40)
    given = arguments.parse_args()
    device = devices.resolve(given.device)
    options = EvaluateOptions(device=given.device, precision=Precision(given.precision), threads=2)
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.tasks:
            for _ in range(2):
                profile, began = cProfile.Profile(), time.monotonic()
                lock = DeviceLock(str(device), folder=Path(scratch))
                with lock.shared(), profile:
                    prepared = PreparedTask(tasks.resolve(name), device, options, lock)
                    ready = time.monotonic()
                    look_for_trivial(prepared, refuse=False)
                    prepared.close()
                print(
                    f"{name}: prepared in {ready - began:.2f} s, linted in {time.monotonic() - ready:.2f} s", flush=True
                )
            pstats.Stats(profile).sort_stats("cumtime").print_stats(given.rows)


if __name__ == "__main__":
    main()
