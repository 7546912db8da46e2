"""Kept compile caches: given back to the same candidate only, unchanged only, and bounded."""

import errno
import os
from pathlib import Path

import pytest

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluationRequest, Status
from pike.judge.candidate_evaluation import cache_owner
from pike.judge.process.caches import Caches
from pike.judge.process.environment import KEPT_CACHES
from pike.judge.process.leftovers import remove
from pike.judge.process.warm_processes import WarmProcesses
from pike.judge.process.watch import TooDeep, bytes_below
from pike.judge.sandbox import LEVELS


@pytest.fixture
def caches():
    made = Caches(most_bytes=100_000)
    yield made
    made.close()
    assert not made.place.exists()


def judged(caches, name, size=40_000, keep=True) -> bool:
    """One evaluation of `name`, which leaves a file; whether it found its caches."""
    found = caches.lend(name, "task")
    (caches.place / "triton" / "kernel").write_bytes(name.encode() * size)
    caches.take_back(keep)
    assert not any(any((caches.place / part).iterdir()) for part in KEPT_CACHES)
    return found


def test_a_candidate_finds_its_own_caches_and_no_other_does(caches):
    assert not judged(caches, "a")
    caches.lend("b", "task")
    assert os.listdir(caches.place / "triton") == []
    caches.take_back(True)
    caches.lend("a", "another task")
    assert os.listdir(caches.place / "triton") == []
    caches.take_back(True)
    assert caches.lend("a", "task")
    assert (caches.place / "triton" / "kernel").read_text() == "a" * 40_000


def test_caches_of_a_candidate_that_was_refused_are_not_kept(caches):
    judged(caches, "a", keep=False)
    assert not judged(caches, "a")


def test_one_that_fails_costs_those_nothing_that_share_its_caches(caches):
    judged(caches, "s")
    assert caches.lend("s", "task")
    (caches.place / "triton" / "kernel").write_text("half of a file")
    caches.take_back(False)
    assert not caches.lend("s", "task"), "it is tried again without them"
    caches.take_back(False)
    assert caches.lend("s", "task")
    assert (caches.place / "triton" / "kernel").read_text() == "s" * 40_000


def test_a_stranger_keeps_nothing(caches):
    caches.lend()
    (caches.place / "triton" / "kernel").write_text("left")
    caches.take_back(True)
    assert not caches.lend()


@pytest.mark.parametrize("change", ["written", "added", "replaced by its like"])
def test_caches_that_were_changed_meanwhile_are_not_given_back(caches, change):
    judged(caches, "a")
    stored = next(path for path in caches.place.parent.rglob("kernel"))
    before = stored.stat()
    if change == "added":
        (stored.parent / "more").touch()
    else:
        text = stored.read_text()
        if change == "replaced by its like":
            stored.unlink()
        stored.write_text(text)
        os.utime(stored, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not caches.lend("a", "task")
    assert os.listdir(caches.place / "triton") == []


def test_the_least_recently_used_go_first(caches):
    assert [judged(caches, name) for name in "ababcab"] == [False, False, True, True, False, False, False]
    assert not judged(caches, "d", size=200_000)
    assert not judged(caches, "d"), "what alone is too large is not kept"
    assert sum(path.stat().st_size for path in caches.place.parent.rglob("kernel")) <= 100_000


@pytest.mark.parametrize("spoil", ["removed", "linked elsewhere"])
def test_a_cache_folder_that_is_no_folder_is_not_kept_and_leaves_nothing(caches, spoil, tmp_path):
    caches.lend("a", "task")
    (caches.place / "triton" / "kernel").write_text("left")
    (caches.place / "extensions").rmdir()
    if spoil == "linked elsewhere":
        (caches.place / "extensions").symlink_to(tmp_path / "gone")
    caches.take_back(True)
    assert [path.name for path in caches.place.parent.iterdir()] == ["now"]
    assert not caches.lend("a", "task")


def test_an_empty_file_counts(tmp_path):
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert bytes_below(tmp_path) >= 100 << 10, "millions of them would use up the file system"


@pytest.fixture
def deep(tmp_path):
    """Folders in folders, deeper than a path or Python's stack can name."""
    folder = tmp_path / "deep"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("dddd", dir_fd=here)
        inner = os.open("dddd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return folder


def test_folders_that_are_too_deep_to_be_counted_are_found_and_removed(deep):
    with pytest.raises(TooDeep):
        bytes_below(deep)
    remove(deep)
    assert not deep.exists()


@pytest.mark.parametrize("level", [level.name for level in LEVELS])
def test_what_a_candidate_left_for_its_compiler_is_there_again_and_not_for_another(verdict, rewrite, level):
    if obstacle := next(one for one in LEVELS if one.name == level).obstacle():
        pytest.skip(obstacle)
    look = """
import os, sys
for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TMPDIR", "CUDA_CACHE_PATH", "HOME"):
    place = os.path.join(os.environ[name], "left")
    sys.stderr.write(f"{name}: {os.path.exists(place)}\\n")
    with open(place, "w") as file: file.write(name)
"""
    mine, theirs = rewrite(top=look), rewrite(top=look + "# another candidate\n")
    for source, again in ((mine, False), (theirs, False), (mine, True)):
        found = verdict(source, sandbox=level)
        assert found.status is Status.VALID, found.log
        told = dict(line.split(": ") for line in found.log.splitlines() if ": " in line)
        assert [told[name] for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")] == [
            str(again)
        ] * 3
        assert [told[name] for name in ("TMPDIR", "CUDA_CACHE_PATH", "HOME")] == ["False"] * 3


def test_a_full_disk_costs_the_caches_and_not_the_verdict(monkeypatch):
    caches = Caches()
    warm = WarmProcesses(caches)
    try:
        caches.lend("a")
        (caches.place / "triton" / "kernel").write_bytes(b"x")
        with monkeypatch.context() as patch:
            patch.setattr("pike.judge.process.caches.os.rename", full_disk)
            warm.take_back(keep=True)
        assert not caches.lend("a")
    finally:
        warm.close()


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_candidate_that_stumbles_over_its_own_caches_is_tried_again_without_them(verdict, rewrite):
    once = 'import os\nos.mkdir(os.environ["TRITON_CACHE_DIR"] + "/mine")\n'
    assert [verdict(once + rewrite()).status for _ in range(2)] == [Status.VALID] * 2


def test_a_judge_that_ends_takes_its_caches_along(tmp_path):
    made = Caches()
    judged(made, "a")
    folder = Path(made.place).parent
    made.close()
    assert not folder.exists()


def test_caches_are_shared_only_where_a_request_names_them() -> None:
    def owner(source: str, caches: str = "") -> tuple[str, str]:
        return cache_owner(EvaluationRequest(Task("t", "t", TaskKind.SOURCE, "", "t.py"), source, caches=caches))

    assert owner("a") != owner("b")
    assert owner("a", "baseline") == owner("b", "baseline") != owner("b", "other")
    assert owner("baseline") != owner("a", "baseline"), "no candidate can write itself into shared caches"
