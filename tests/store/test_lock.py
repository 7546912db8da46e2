"""One writer for each run: a second one is refused clearly, a dead one is no obstacle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pike.core.errors import UserError
from pike.core.events import Resumed
from pike.store import Journal, read

HOLD = """
import sys, time
from pathlib import Path
from pike.store import Journal
journal = Journal.open(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("1"))
    return tmp_path


def holder(run: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_name_of_the_first(run: Path) -> None:
    process = holder(run)
    try:
        with pytest.raises(UserError, match=rf"in use by process {process.pid} on .* since 20\d\d-") as caught:
            Journal.open(run)
        assert "\n" not in str(caught.value)
        with pytest.raises(UserError, match="in use by process"):
            Journal.create(run)
        assert len(list(read(run))) == 1, "reading needs no lock"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Journal.open(run) as journal:
        assert journal.append(Resumed("2"))[0].seq == 2


def test_the_same_process_is_refused_too_and_free_after_close(run: Path) -> None:
    with Journal.open(run), pytest.raises(UserError, match=f"process {os.getpid()} "):
        Journal.open(run)
    Journal.open(run).close()


def test_a_refused_process_leaves_the_holder_in_peace(run: Path) -> None:
    with Journal.open(run) as journal:
        for _ in range(3):
            with pytest.raises(UserError):
                Journal.open(run)
        assert journal.append(Resumed("2"))[0].seq == 2


def test_programs_started_by_the_holder_do_not_keep_the_lock(run: Path) -> None:
    journal = Journal.open(run)
    child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        journal.close()
        Journal.open(run).close()
    finally:
        child.kill()
        child.wait()


def test_a_failed_open_or_create_lets_go_of_the_lock(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="already holds"):
        Journal.create(run)
    Journal.open(run).close()


def test_a_half_written_lock_file_is_still_a_lock(run: Path) -> None:
    with Journal.open(run):
        (run / "journal.lock").write_text('{"pid": 1')
        with pytest.raises(UserError, match="in use by another process"):
            Journal.open(run)
