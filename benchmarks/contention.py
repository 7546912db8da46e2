"""What the judge's meter says while so many of its own processes and so many others keep the CPUs busy.

Run `python benchmarks/contention.py` on a machine with nothing else to do. A line each: own and other busy processes,
the share of the time in which somebody waited, the CPU time of others for each second, what the host took of it, and
the contention that a verdict would show. With `PYTHONPATH=src` the project need not be installed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pike.judge.timing.contention import Contention, ContentionMeter

SPIN = "while True: pass"
SECONDS = 1.0


@contextmanager
def spinning(count: int) -> Iterator[list[int]]:
    """So many busy processes, by number."""
    with ExitStack() as stack:
        started = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
        for process in started:
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(0.3)
        yield [process.pid for process in started]


def seen(own: int, others: int) -> Contention:
    """What the meter says of a second with so many of each."""
    with spinning(own) as ours, spinning(others):
        meter = ContentionMeter([os.getpid(), *ours], [os.getpid(), *ours])
        time.sleep(SECONDS)
        return meter.read()


def main() -> None:
    cpus = os.cpu_count() or 1
    print(f"{cpus} CPUs\n own  others   waited  others' CPU   stolen   contention")
    for own in (0, 1, cpus, 2 * cpus):
        for others in (0, 1, cpus):
            found = seen(own, others)
            figures = f"{found.waited:7.2f}  {found.others:11.2f}  {found.stolen:7.2f}  {found.share:11.2f}"
            print(f"{own:4d}  {others:6d}  {figures}")


if __name__ == "__main__":
    main()
