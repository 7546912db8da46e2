"""What is written is what is read: round trips, order, transactions, readers beside a writer."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_events import AWKWARD, EVERY_KIND, LONG
from verification import verify

from pike.core.codec import encode
from pike.core.errors import StoreError, UserError
from pike.core.events import Asked, Finished, JournalEntry, Proposed, Resumed, RunStarted, Stopped, Told
from pike.core.settings.config import RunConfig, StrategyConfig
from pike.core.step import Candidate, Role, Step
from pike.store import Journal, read


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    ticks = itertools.count(1_700_000_000)
    with Journal.create(tmp_path / "run", clock=lambda: float(next(ticks))) as made:
        yield made


def same(one: Any, other: Any) -> bool:
    """Equality that takes nan for nan."""
    return bool(encode(one) == encode(other))


def test_every_event_comes_back_as_it_was(journal: Journal) -> None:
    written = [entry for event in EVERY_KIND for entry in journal.append(event)]
    assert [entry.seq for entry in written] == list(range(1, len(EVERY_KIND) + 1))
    assert same([entry.event for entry in written], list(EVERY_KIND))
    assert same(list(journal.entries()), written)
    assert same(list(read(journal.folder)), written)
    assert math.isnan(next(read(journal.folder, after=9)).event.evaluation.error.max_abs)  # type: ignore[union-attr]


def test_time_is_the_clocks_and_one_for_a_transaction(journal: Journal) -> None:
    first = journal.append(Resumed("1"), Resumed("2"))
    (second,) = journal.append(Resumed("3"))
    assert first[0].at_seconds == first[1].at_seconds < second.at_seconds < 1_700_000_010


def test_long_texts_are_plain_files_that_people_can_open(journal: Journal) -> None:
    journal.append(*EVERY_KIND)
    files = [path for path in (journal.folder / "blobs").glob("??/*") if path.is_file()]
    assert LONG.encode() in [path.read_bytes() for path in files]
    assert AWKWARD.encode("utf-8", "surrogatepass") in [path.read_bytes() for path in files]
    assert len(files) == 4, "each text is stored once"
    raw = (journal.folder / "journal.sqlite-wal").read_bytes()
    assert LONG.encode()[:60] not in raw
    assert b"429 too many requests" in raw


@pytest.mark.parametrize(("length", "files"), [(512, 0), (513, 1)])
def test_only_strings_above_512_characters_move(journal: Journal, length: int, files: int) -> None:
    journal.append(Stopped("é" * length))
    assert len(list((journal.folder / "blobs").glob("??/*"))) == files
    assert next(journal.entries()).event == Stopped("é" * length)


def test_what_is_not_durable_is_there_all_the_same_and_keeps_its_texts_in_its_row(journal: Journal) -> None:
    source = "x" * 5000
    journal.append(Asked(Step(0, Role.OPTIMISE)), Proposed(0, Candidate("c0", source)), durable=False)
    assert not list((journal.folder / "blobs").glob("*/*"))
    journal.append(Proposed(1, Candidate("c1", source)))
    assert len(list((journal.folder / "blobs").glob("*/*"))) == 1
    found = [entry.event for entry in read(journal.folder)][-2:]
    assert [event.candidate.source for event in found if isinstance(event, Proposed)] == [source, source]
    assert verify(journal.folder).sound


def test_a_reopened_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append(*EVERY_KIND)
    with Journal.open(tmp_path) as journal:
        (entry,) = journal.append(Resumed("2"))
        assert entry.seq == len(EVERY_KIND) + 1
        assert len(list(journal.entries())) == entry.seq
    assert not list(tmp_path.glob("journal.sqlite-*")), "a closed journal is one file and its blobs"


def test_many_entries_are_read_in_order(journal: Journal) -> None:
    journal.append(*(Told(number) for number in range(2_500)))
    assert [entry.event.step_id for entry in journal.entries()] == list(range(2_500))  # type: ignore[union-attr]
    assert [entry.seq for entry in read(journal.folder, after=2_400)] == list(range(2_401, 2_501))


def test_a_reader_follows_a_run_that_goes_on(journal: Journal) -> None:
    assert list(read(journal.folder)) == []
    journal.append(Resumed("1"))
    follower = read(journal.folder)
    assert next(follower).seq == 1
    journal.append(Resumed("2"), Resumed("3"))
    assert [entry.seq for entry in follower] == [2, 3]
    assert list(read(journal.folder, after=3)) == []


def test_appending_while_iterating_does_not_block(journal: Journal) -> None:
    journal.append(Resumed("1"))
    seen = 0
    for entry in journal.entries():
        seen = entry.seq
        if seen < 5:
            journal.append(Resumed(str(seen)))
    assert seen == 5


def test_an_event_that_cannot_be_written_takes_its_transaction_with_it(journal: Journal) -> None:
    reserved = RunConfig(strategy=StrategyConfig("x", {"a": {"$blob": "b"}}))
    started = EVERY_KIND[0]
    assert isinstance(started, RunStarted)
    with pytest.raises(ValueError, match="reserved"):
        journal.append(Resumed("1"), RunStarted(started.task, reserved, started.device, "1"))
    assert list(journal.entries()) == []
    assert journal.append(Resumed("1"))[0].seq == 1
    assert journal.append() == ()


def test_an_interrupted_append_leaves_nothing_behind(tmp_path: Path) -> None:
    interrupts = iter([False, True, False])

    def clock() -> float:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return 1.0

    with Journal.create(tmp_path, clock=clock) as journal:
        with pytest.raises(KeyboardInterrupt):
            journal.append(Resumed("1"))
        assert journal.append(Resumed("2"))[0] == next(journal.entries())


def test_threads_share_one_journal(journal: Journal) -> None:
    def work(worker: int) -> None:
        for number in range(20):
            journal.append(Asked(Step(worker * 100 + number, Role.OPTIMISE)), Told(worker * 100 + number))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = list(journal.entries())
    assert [entry.seq for entry in entries] == list(range(1, 161))
    for asked, told in zip(entries[::2], entries[1::2], strict=True):
        assert asked.event.step.id == told.event.step_id  # type: ignore[union-attr]


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "a" / "b") as journal:
        journal.append(Resumed("1"))
    with pytest.raises(UserError, match=r"already holds a run.*pike resume"):
        Journal.create(tmp_path / "a" / "b")
    assert len(list(read(tmp_path / "a" / "b"))) == 1


def test_a_run_that_never_began_can_be_begun_and_not_resumed(tmp_path: Path) -> None:
    Journal.create(tmp_path).close()
    with pytest.raises(UserError, match="never began"):
        Journal.open(tmp_path)
    (tmp_path / "journal.sqlite").write_bytes(b"")
    with pytest.raises(UserError, match="never began"):
        Journal.open(tmp_path)
    assert list(read(tmp_path)) == []
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("1"))


@pytest.mark.parametrize("use", [Journal.open, read, verify])
def test_a_missing_run_is_said_to_be_missing(tmp_path: Path, use: Any) -> None:
    with pytest.raises(UserError, match="no run in"):
        use(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_cannot_be_made_is_the_users_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="choose another"):
            Journal.create(folder)


def test_a_closed_journal_writes_and_reads_nothing(journal: Journal) -> None:
    journal.append(Resumed("1"))
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.append(Finished(None))
    with pytest.raises(StoreError, match="closed"):
        list(journal.entries())


def test_a_missing_or_damaged_text_is_named(journal: Journal) -> None:
    journal.append(Stopped("a" * 600), Stopped("b" * 600))
    (one, other) = sorted((journal.folder / "blobs").glob("??/*"), key=lambda path: path.read_text())
    one.write_text("c" * 600)
    other.unlink()
    with pytest.raises(StoreError, match=f"{one.name}.*damaged"):
        list(read(journal.folder))
    with pytest.raises(StoreError, match=f"{other.name}.*missing"):
        list(read(journal.folder, after=1))
    found = verify(journal.folder)
    assert (found.entries, found.damaged, found.missing, found.sound) == (2, (one.name,), (other.name,), False)


def test_a_repeated_text_repairs_a_lost_one(journal: Journal) -> None:
    journal.append(Stopped("a" * 600))
    next((journal.folder / "blobs").glob("??/*")).unlink()
    journal.close()
    with Journal.open(journal.folder) as again:
        again.append(Stopped("a" * 600))
        assert len(list(again.entries())) == 2


def test_a_text_that_is_there_is_not_written_again(journal: Journal) -> None:
    journal.append(Stopped("a" * 600))
    (blob,) = (journal.folder / "blobs").glob("??/*")
    inode = blob.stat().st_ino
    journal.close()
    with Journal.open(journal.folder) as again:
        again.append(Stopped("a" * 600))
    assert blob.stat().st_ino == inode


def test_verify_tells_gaps_and_harmless_orphans(journal: Journal) -> None:
    journal.append(Resumed("1"), Stopped("a" * 600), Resumed("2"))
    assert verify(journal.folder).sound
    journal.close()
    with contextlib.closing(sqlite3.connect(journal.folder / "journal.sqlite")) as rows, rows:
        rows.execute("DELETE FROM events WHERE seq=2")
    found = verify(journal.folder)
    assert (found.gaps, len(found.orphans), found.missing) == ((2,), 1, ())


def test_a_finished_run_is_read_from_a_read_only_disk(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    with Journal.create(tmp_path / "run") as journal:
        entries = [entry for event in EVERY_KIND for entry in journal.append(event)]
    with read_only(tmp_path / "run", tmp_path / "mount"):
        assert same(list(read(tmp_path / "mount")), entries)
        assert verify(tmp_path / "mount").sound
        with pytest.raises(StoreError, match="cannot be written"):
            Journal.open(tmp_path / "mount")


@contextlib.contextmanager
def read_only(source: Path, target: Path) -> Iterator[None]:
    """`source` mounted read-only at `target`; skips the test where this is not allowed."""
    commands = [["mount", "--bind", source, target], ["mount", "-o", "remount,bind,ro", target]]
    if os.geteuid() != 0 or subprocess.run(commands[0], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs privileges")
    try:
        if subprocess.run(commands[1], capture_output=True, check=False).returncode:
            pytest.skip("mounting needs privileges")
        yield
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)


def test_entries_are_plain_records(journal: Journal) -> None:
    (entry,) = journal.append(Resumed("1"))
    assert isinstance(entry, JournalEntry)
    assert entry == next(journal.entries())
