"""Journals of every past version are read; what is not ours is refused in one sentence."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from store_events import EVERY_KIND
from verification import verify

from pike.core.codec import encode
from pike.core.errors import StoreError, UserError
from pike.core.events import Finished, Resumed, RunStarted
from pike.core.step import Role
from pike.store import Journal, read

ASSETS = Path(__file__).parent / "assets"


@pytest.mark.parametrize("version", [1])
def test_a_journal_of_a_past_version_is_read_and_continued(version: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ASSETS / f"journal_v{version}", run)
    assert encode([entry.event for entry in read(run)]) == encode(list(EVERY_KIND))
    assert verify(run).sound
    assert not verify(run).orphans
    with Journal.open(run) as journal:
        assert journal.append(Resumed("now"))[0].seq == len(EVERY_KIND) + 1


def test_models_of_a_run_from_before_roles_could_have_several(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(ASSETS / "journal_v1_models", run)
    started, *_, last = [entry.event for entry in read(run)]
    assert isinstance(started, RunStarted)
    assert isinstance(last, Finished)
    llm = started.config.llm
    assert (llm.coa, llm.efa, llm.iba) == ("scripted:models.json", "scripted:cheap.json", "")
    assert llm.models(Role.OPTIMISE) == llm.models(Role.PLAN) == ("scripted:models.json",)
    assert llm.models(Role.FIX) == llm.models(Role.DEBUG) == ("scripted:cheap.json",)
    assert verify(run).sound
    with Journal.open(run) as journal:
        journal.append(Resumed("now"))


def written(folder: Path, statements: str) -> Path:
    with sqlite3.connect(folder / "journal.sqlite") as connection:
        connection.executescript(statements)
    connection.close()
    return folder


@pytest.mark.parametrize("use", [Journal.open, Journal.create, read, verify])
def test_a_newer_journal_is_refused_and_left_alone(use: Any, tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("1"))
    written(tmp_path, "PRAGMA user_version=99")
    before = (tmp_path / "journal.sqlite").read_bytes()
    with pytest.raises(UserError, match=r"journal version 99.*newer PIKE"):
        use(tmp_path)
    assert (tmp_path / "journal.sqlite").read_bytes() == before


@pytest.mark.parametrize("use", [Journal.open, Journal.create, read, verify])
def test_another_programs_database_is_refused_and_left_alone(use: Any, tmp_path: Path) -> None:
    written(tmp_path, "CREATE TABLE events (x); INSERT INTO events VALUES (1)")
    before = (tmp_path / "journal.sqlite").read_bytes()
    with pytest.raises(UserError, match="not a PIKE journal"):
        use(tmp_path)
    assert (tmp_path / "journal.sqlite").read_bytes() == before


@pytest.mark.parametrize("use", [Journal.open, Journal.create, read, verify])
def test_what_is_no_database_is_a_store_error(use: Any, tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("not a database at all " * 100)
    with pytest.raises(StoreError, match=f"journal of run '{tmp_path}' cannot be read: .*put a copy of it back"):
        use(tmp_path)


def test_an_event_from_the_future_is_named(tmp_path: Path) -> None:
    with Journal.create(tmp_path) as journal:
        journal.append(Resumed("1"))
    written(tmp_path, "INSERT INTO events VALUES (2, 0.0, 'Teleported', '{}')")
    with pytest.raises(StoreError, match=r"Entry 2 .*Teleported"):
        list(read(tmp_path))
