"""What was computed from a journal is kept only as long as it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pike.core.events import Resumed, Stopped
from pike.store import Journal, checkpoint

VALUE = {"best": 2.0, "name": "Kern ü"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    with Journal.create(folder) as journal:
        journal.append(*(Resumed(str(number)) for number in range(50)))
    checkpoint.write(folder, "figures", "1", checkpoint.mark_of(folder), VALUE)
    return folder


def known(folder: Path, version: str = "1") -> object:
    return checkpoint.read(folder, "figures", version, checkpoint.mark_of(folder))


def test_it_is_found_while_the_journal_is_the_same(run: Path) -> None:
    assert known(run) == VALUE
    assert checkpoint.read(run, "other", "1", checkpoint.mark_of(run)) is None
    assert sorted(path.name for path in run.glob("checkpoint*")) == ["checkpoint-figures"]


def test_a_journal_that_has_grown_makes_it_stale(run: Path) -> None:
    with Journal.open(run) as journal:
        journal.append(Stopped("done"))
    assert known(run) is None


def test_another_version_is_ignored(run: Path) -> None:
    assert known(run, "2") is None


@pytest.mark.parametrize("place", [5, -5])
def test_a_damaged_one_is_ignored(run: Path, place: int) -> None:
    path = run / "checkpoint-figures"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert known(run) is None
    path.write_bytes(b"")
    assert known(run) is None


def test_one_of_another_journal_is_ignored(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Journal.create(other) as journal:
        journal.append(*(Resumed(f"other {number}") for number in range(50)))
    (run / "checkpoint-figures").rename(other / "checkpoint-figures")
    assert known(other) is None


def test_a_disk_that_refuses_costs_nothing_but_time(run: Path) -> None:
    (run / "checkpoint-full").mkdir()
    checkpoint.write(run, "full", "1", checkpoint.mark_of(run), VALUE)
    assert checkpoint.read(run, "full", "1", checkpoint.mark_of(run)) is None
    assert sorted(path.name for path in run.glob("checkpoint*")) == ["checkpoint-figures", "checkpoint-full"]
