"""kill -9 in the middle of appends: whole transactions, in order, with all their texts, and nothing acknowledged lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from verification import verify

from pike.core.events import Asked, Event, Proposed, Resumed, Told
from pike.store import Journal, read

WRITE = """
import sys
from pathlib import Path
from pike.core.events import Asked, Proposed, Resumed, Told
from pike.core.step import Candidate, Role, Step
from pike.store import Journal

folder = Path(sys.argv[1])
journal = Journal.open(folder)
number = (sum(1 for _ in journal.entries()) - 1) // 3
print("ready", flush=True)
while True:
    journal.append(
        Asked(Step(number, Role.OPTIMISE)),
        Proposed(number, Candidate(f"c{number}", f"# source {number}\\n" * 400)),
        Told(number, f"c{number}"),
    )
    print(number, flush=True)
    number += 1
"""
KILLS = 6


def check(events: list[Event]) -> int:
    """The number of whole transactions, which is all there may be."""
    assert isinstance(events[0], Resumed)
    body = events[1:]
    assert len(body) % 3 == 0
    for number, (asked, proposed, told) in enumerate(zip(body[::3], body[1::3], body[2::3], strict=True)):
        assert isinstance(asked, Asked)
        assert isinstance(proposed, Proposed)
        assert isinstance(told, Told)
        assert asked.step.id == proposed.step_id == told.step_id == number
        assert proposed.candidate.source == f"# source {number}\n" * 400
    return len(body) // 3


def test_kill_9_leaves_a_prefix_of_whole_transactions(tmp_path: Path) -> None:
    rng = random.Random(20)
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("0"))
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.0, 0.2))
        process.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait()
        count = check([entry.event for entry in read(tmp_path)])
        assert count > max(acknowledged, default=-1), "an acknowledged append is never lost"
        assert verify(tmp_path).sound
    with Journal.open(tmp_path) as journal:
        assert check([entry.event for entry in journal.entries()]) == count
        assert journal.append(Resumed("1"))[0].seq == 3 * count + 2
    assert count > 0
