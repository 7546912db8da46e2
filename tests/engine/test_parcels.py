"""A task packed on one machine and unpacked on another: the same files under other paths."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.engine.executors.parcel import pack, unpack
from pike.tasks.files import task_files

MODEL = "from parts.layers import WIDTH\nclass Model: width = WIDTH\n"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A saved module whose class imports a package beside it."""
    here = tmp_path / "here"
    (here / "parts").mkdir(parents=True)
    (here / "parts" / "layers.py").write_text("WIDTH = 96\n")
    (here / "net.py").write_text(MODEL)
    (tmp_path / "module.pkl").write_bytes(b"saved")
    files = task_files([here / "net.py", tmp_path / "module.pkl"], [str(here)])
    return Task("net", "net", TaskKind.MODULE, MODEL, "net.py", str(tmp_path / "module.pkl"), (str(here),), files)


def test_imports_find_their_files_again(task: Task, tmp_path: Path) -> None:
    there = unpack(pack(task), tmp_path / "there")
    assert there.payload_path is not None and Path(there.payload_path).read_bytes() == b"saved"
    (root,) = there.import_paths
    assert Path(root).is_relative_to(tmp_path / "there")
    code = "import net; print(net.Model.width)"
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout == "96\n"
    assert [file.digest for file in there.files] == [file.digest for file in task.files]
    assert not [file.path for file in there.files if str(tmp_path / "here") in file.path]


def test_what_lies_there_already_is_not_written_again(task: Task, tmp_path: Path) -> None:
    parcel = pack(task)
    first = unpack(parcel, tmp_path / "there")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "there").rglob("*")}
    assert unpack(parcel, tmp_path / "there") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "there").rglob("*")} == before


def test_a_file_that_changed_is_not_packed(task: Task, tmp_path: Path) -> None:
    (tmp_path / "here" / "net.py").write_text("class Model: width = 1\n")
    with pytest.raises(UserError, match=r"net\.py has changed"):
        pack(task)


def test_a_journal_from_another_machine_holds_the_task_file_itself(task: Task, tmp_path: Path) -> None:
    before = pack(task)
    (tmp_path / "here" / "net.py").unlink()
    assert pack(task) == before
    (tmp_path / "here" / "parts" / "layers.py").unlink()
    with pytest.raises(UserError, match=r"layers\.py of task 'net' cannot be read"):
        pack(task)


def test_a_parcel_that_was_changed_on_its_way_is_refused(task: Task, tmp_path: Path) -> None:
    parcel = pack(task)
    with pytest.raises(UserError, match="changed on its way"):
        unpack(replace(parcel, payload=b"another"), tmp_path / "there")
    assert not (tmp_path / "there").exists()
