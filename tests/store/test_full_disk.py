"""A disk that fills up: one clear stop, nothing half-written, and the run goes on when there is space again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from verification import verify

from pike.core.errors import StoreError
from pike.core.events import JournalEntry, Proposed, Resumed, Stopped
from pike.core.step import Candidate
from pike.store import Journal, read


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs privileges")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(journal: Journal, characters: int) -> list[JournalEntry]:
    """Append pairs until the disk refuses; returns what was acknowledged."""
    written: list[JournalEntry] = []

    def append_for_ever() -> None:
        for number in range(100_000):
            text = f"{number:06}" * (characters // 6)
            written.extend(journal.append(Resumed(str(number)), Proposed(number, Candidate(f"c{number}", text))))

    with pytest.raises(StoreError, match=rf"'{journal.folder}' is full .*: free some space"):
        append_for_ever()
    return written


@pytest.mark.parametrize("characters", [60_000, 300], ids=["in-a-blob", "in-the-database"])
def test_a_full_disk_stops_clearly_and_the_run_is_resumable(small_disk: Path, characters: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"0" * 400_000)
    journal = Journal.create(small_disk / "run")
    written = fill(journal, characters)
    assert len(written) > 4
    with pytest.raises(StoreError, match="is full"):
        journal.append(Resumed("after a hole"))
    assert list(journal.entries()) == written
    assert list(read(journal.folder)) == written
    journal.close()
    ballast.unlink()
    with Journal.open(small_disk / "run") as again:
        assert again.append(Resumed("more"))[0].seq == len(written) + 1
        assert list(again.entries())[:-1] == written
    assert verify(small_disk / "run").sound


def test_a_disk_full_from_the_start_is_said_so(small_disk: Path) -> None:
    (small_disk / "run").mkdir()
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"0" * 2_000_000)
    with pytest.raises(StoreError, match="is full"):
        Journal.create(small_disk / "run")
    (small_disk / "ballast").unlink()
    with Journal.create(small_disk / "run") as journal:
        journal.append(Resumed("1"))


LIMITED = """
import resource, sys
from pathlib import Path
from pike.core.errors import StoreError
from pike.core.events import Resumed, Stopped
from pike.store import Journal
journal = Journal.open(Path(sys.argv[1]))
length = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(100_000):
    try:
        journal.append(Resumed(str(number)), Stopped("x" * length))
    except StoreError as error:
        print(number, error)
        sys.exit(0)
sys.exit(1)
"""


@pytest.mark.parametrize("length", [200_001, 500], ids=["in-a-blob", "in-the-database"])
def test_a_refused_write_loses_nothing_that_was_acknowledged(tmp_path: Path, length: int) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("first"))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), str(length)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    count, _, message = done.stdout.partition(" ")
    assert f"'{tmp_path}' is full" in message or f"'{tmp_path}' cannot be written" in message
    with Journal.open(tmp_path) as journal:
        assert len(list(journal.entries())) == 1 + 2 * int(count)
        journal.append(Stopped("x" * length))
    assert verify(tmp_path).sound
    assert not list((tmp_path / "blobs").glob("unfinished"))
