"""Kept compile caches: given back to the same candidate only, unchanged only, and bounded."""

import errno
import json
import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from pike.core.errors import InfraError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status
from pike.engine.executors import gpus
from pike.judge.candidate_evaluation import cache_owner
from pike.judge.client import JudgeClient, SharedCaches
from pike.judge.process.caches import Caches, seal
from pike.judge.process.environment import KEPT_CACHES
from pike.judge.process.leftovers import remove
from pike.judge.process.warm_processes import WarmProcesses
from pike.judge.process.watch import TooDeep, bytes_below
from pike.judge.sandbox import LEVELS

MOST_BYTES = 100_000


@pytest.fixture
def caches():
    made = Caches(most_bytes=MOST_BYTES)
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
    assert sum(path.stat().st_size for path in caches.place.parent.rglob("kernel")) <= MOST_BYTES


@pytest.mark.parametrize("spoil", ["removed", "linked elsewhere"])
def test_a_cache_folder_that_is_no_folder_is_not_kept_and_leaves_nothing(caches, spoil, tmp_path):
    caches.lend("a", "task")
    (caches.place / "triton" / "kernel").write_text("left")
    (caches.place / "extensions").rmdir()
    if spoil == "linked elsewhere":
        (caches.place / "extensions").symlink_to(tmp_path / "gone")
    caches.take_back(True)
    assert not caches.lend("a", "task")
    assert {path.name for path in caches.place.parent.rglob("*")} == {"now", "kept", *KEPT_CACHES}


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


def full_disk(*_, **__):
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


@pytest.fixture
def shared():
    """The folder and the key of caches that judges share."""
    caches = SharedCaches()
    folder = Path(caches.message["folder"])
    yield {"folder": str(folder), "key": caches.message["key"]}
    assert folder.exists()
    del caches
    assert not folder.exists()


@pytest.fixture
def beside(shared):
    """Two judges that share their caches."""
    made = [Caches(MOST_BYTES, **shared) for _ in range(2)]
    yield made
    for one in made:
        one.close()


def test_judges_side_by_side_find_what_the_other_kept(beside, shared):
    mine, theirs = beside
    assert not judged(mine, "a")
    assert judged(theirs, "a")
    assert not theirs.lend("a", "another task")
    theirs.take_back(True)
    for path in Path(shared["folder"]).iterdir():
        remove(path)
    Path(shared["folder"]).rmdir()
    assert not judged(theirs, "a"), "a folder that is gone costs the caches and no verdict"
    Path(shared["folder"]).mkdir()


def left(caches, name, part, file, text, keep=True):
    """One evaluation of `name`, which leaves a file in a folder of a part of its caches, and whether it found any."""
    found = caches.lend(name, "task")
    place = caches.place / part / "folder" / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    caches.take_back(keep)
    return found


def test_judges_side_by_side_add_to_the_same_caches(beside):
    for judge in beside:
        assert not judge.lend("s", "task")
    for judge, name in zip(beside, ("mine", "theirs"), strict=True):
        (judge.place / "inductor" / name).write_text(name)
        (judge.place / "extensions" / name).write_text(name)
        judge.take_back(True)
    assert judge.lend("s", "task")
    assert {path.name for path in (judge.place / "inductor").iterdir()} == {"mine", "theirs"}
    assert {path.name for path in (judge.place / "extensions").iterdir()} == {"theirs"}, (
        "ninja's files are of one build"
    )


def test_what_a_candidate_stumbled_over_is_replaced(caches):
    left(caches, "a", "inductor", "bad", "stumbled over")
    assert left(caches, "a", "inductor", "half", "half", keep=False)
    assert not left(caches, "a", "inductor", "good", "good")
    assert caches.lend("a", "task")
    assert [path.name for path in (caches.place / "inductor" / "folder").iterdir()] == ["good"]


def test_caches_are_put_together_without_following_links(beside, tmp_path):
    mine, theirs = beside
    for judge in beside:
        assert not judge.lend("a", "task")
    left_here = mine.place / "inductor" / "folder"
    left_here.mkdir()
    (left_here / "kernel").write_text("mine")
    mine.take_back(True)
    (theirs.place / "inductor" / "folder").symlink_to(tmp_path)
    theirs.take_back(True)
    assert list(tmp_path.iterdir()) == []


def test_nobody_without_the_key_can_put_caches_there(beside, shared):
    judged(beside[0], "a")
    (stored,) = Path(shared["folder"]).iterdir()
    (stored / "triton" / "kernel").write_text("another kernel")
    terms = stored.name.rpartition(".")[0]
    forged = stored.rename(stored.with_name(f"{terms}.{seal(stored, terms=terms)}"))
    assert not beside[1].lend("a", "task")
    assert not forged.exists()


@pytest.mark.parametrize("what", ["name", "bytes"])
def test_kept_caches_cannot_be_passed_off_as_others(beside, shared, what):
    for name in ("a", "b"):
        judged(beside[0], name)
    folder = Path(shared["folder"])
    first, second = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    name, nbytes, sealed = second.name.split(".")
    remove(first)
    second.rename(
        folder / (f"{first.name.split('.')[0]}.{nbytes}.{sealed}" if what == "name" else f"{name}.0.{sealed}")
    )
    assert not beside[1].lend("a" if what == "name" else "b", "task")


@pytest.mark.parametrize("name", ["rubbish", "a.b.c", ".1.a", "lock", "a..1", "a.1.b", "a.9999999999999.b"])
def test_foreign_files_beside_kept_caches_do_nothing(beside, shared, name):
    for make in (Path.touch, Path.mkdir):
        make(Path(shared["folder"]) / name)
        assert not judged(beside[0], make.__name__, size=10)
        assert judged(beside[1], make.__name__, size=10)
        remove(Path(shared["folder"]) / name)


def test_holes_in_files_count_as_what_a_copy_of_them_takes(caches):
    caches.lend("a", "task")
    with open(caches.place / "triton" / "kernel", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    caches.take_back(True)
    assert not caches.lend("a", "task")


@pytest.mark.parametrize("what", ["a pipe", "folders in folders", "a folder that is read only"])
def test_caches_that_cannot_be_copied_cost_no_verdict(caches, what):
    caches.lend("a", "task")
    if what == "a pipe":
        os.mkfifo(caches.place / "triton" / "__grp__pipe")
    elif what == "folders in folders":
        caches = Caches()
        caches.lend("a", "task")
        folder = caches.place / "triton"
        for _ in range(1200):
            folder /= "d"
            folder.mkdir()
    else:
        caches.place.chmod(0o500)
    caches.take_back(True)
    assert not caches.lend("a", "task")
    assert os.listdir(caches.place / "triton") == []
    assert stat.S_IMODE(caches.place.stat().st_mode) == 0o700
    (caches.place / "inductor" / "good").write_text("good")
    caches.take_back(True)
    assert caches.lend("a", "task"), "good ones take their place"


def test_one_that_shares_finds_them_after_another_failed(caches):
    caches.lend("s", "task", by="a")
    (caches.place / "inductor" / "a").write_text("a")
    caches.take_back(True)
    assert caches.lend("s", "task", by="b")
    caches.take_back(False)
    assert caches.lend("s", "task", by="c")
    (caches.place / "inductor" / "c").write_text("c")
    caches.take_back(True)
    assert caches.lend("s", "task", by="a")
    assert {path.name for path in (caches.place / "inductor").iterdir()} == {"a", "c"}


@pytest.mark.parametrize("meanwhile", ["written to", "emptied", "removed"])
def test_a_copy_of_what_changes_meanwhile_is_given_up(beside, shared, monkeypatch, meanwhile):
    left(beside[0], "a", "inductor", "kernel", "good")
    whole = shutil.copytree

    def copied(folder, place, **options):
        monkeypatch.setattr(shutil, "copytree", whole)  # which calls itself
        if meanwhile == "removed":
            remove(folder)
        elif meanwhile == "emptied":
            (folder / "inductor" / "folder" / "kernel").unlink()
        whole(folder, place, **options)
        if meanwhile == "written to":
            (folder / "inductor" / "folder" / "kernel").write_text("bad")

    monkeypatch.setattr(shutil, "copytree", copied)
    assert not beside[1].lend("a", "task")
    assert not any(path.is_file() for path in beside[1].place.rglob("*"))


@pytest.mark.parametrize("meanwhile", ["removed", "written to", "forged"])
def test_what_changes_while_caches_are_put_together_is_left_out(beside, shared, monkeypatch, meanwhile):
    for judge in beside:
        judge.lend("s", "task")
    for judge, name in zip(beside, ("mine", "theirs"), strict=True):
        (judge.place / "inductor" / name).write_text(name)
    beside[0].take_back(True)
    (stored,) = Path(shared["folder"]).iterdir()
    whole = shutil.copytree

    def copied(folder, place, **options):
        monkeypatch.setattr(shutil, "copytree", whole)
        whole(folder, place, **options)
        remove(folder) if meanwhile == "removed" else (folder / "inductor" / "mine").write_text("bad")

    if meanwhile == "forged":
        (stored / "inductor" / "mine").write_text("bad")
        monkeypatch.setattr("pike.judge.process.caches.remove", lambda path: None)  # as where it may not be removed
    else:
        monkeypatch.setattr(shutil, "copytree", copied)
    beside[1].take_back(True)
    monkeypatch.undo()
    assert beside[1].lend("s", "task")
    assert [path.name for path in (beside[1].place / "inductor").iterdir()] == ["theirs"]


def test_triton_finds_its_files_where_another_judge_runs(beside, tmp_path):
    mine, theirs = beside
    outside = tmp_path / "__grp__outside"
    outside.write_text(json.dumps(str(mine.place / "triton")))
    mine.lend("a", "task")
    listed = mine.place / "triton" / "key" / "__grp__kernel.json"
    listed.parent.mkdir()
    listed.write_text(json.dumps({"child_paths": {"kernel.cubin": str(listed.parent / "kernel.cubin")}}))
    (listed.parent / "__grp__link").symlink_to(outside)
    mine.take_back(True)
    assert theirs.lend("a", "task")
    found = json.loads((theirs.place / "triton" / "key" / "__grp__kernel.json").read_text())
    assert found == {"child_paths": {"kernel.cubin": str(theirs.place / "triton" / "key" / "kernel.cubin")}}
    assert json.loads(outside.read_text()) == str(mine.place / "triton"), "no link is followed"
    theirs.take_back(True)


def keeps(shared, name, times):
    """A judge that adds files to the caches that all share, and how often it found some."""
    caches, found = Caches(**shared), 0
    for number in range(times):
        found += caches.lend("s", "task")
        (caches.place / "inductor" / f"{name}-{number}").write_text(name * 1000)
        caches.take_back(True)
    caches.close()
    return found


def test_many_judges_keep_caches_under_one_name_at_once(shared):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: keeps(shared, name, 25), "abcd"))
    assert sum(found) > 0, "what is found while others replace it is a matter of luck"
    last = Caches(**shared)
    assert last.lend("s", "task")
    assert list((last.place / "inductor").iterdir())
    last.close()


def test_a_disk_without_room_for_shared_caches_is_one_sentence(monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", full_disk)
    with pytest.raises(InfraError, match=r"no folder for compilers' caches.*No space left.*TMPDIR"):
        gpus.starts(())


def test_judges_of_one_machine_share_their_caches(monkeypatch):
    started = []
    monkeypatch.setattr(gpus, "start_judge", lambda *given: started.append(given))
    for start in [*gpus.starts(()), *gpus.starts(())]:
        start()
        start()
    assert [caches is started[0][1] for _, caches in started] == [True, True, False, False]


def test_a_candidate_finds_what_it_left_with_another_judge(rewrite, task):
    look = """
import os, sys
place = os.path.join(os.environ["TRITON_CACHE_DIR"], "left")
sys.stderr.write(f"left: {os.path.exists(place)}, {[name for name in os.environ if 'PIKE' in name]}\\n")
with open(place, "w") as file: file.write("left")
"""
    shared = SharedCaches()
    request = EvaluationRequest(task, rewrite(top=look), EvaluateOptions(device="cpu", threads=1))
    with closing(JudgeClient(caches=shared)) as judge:
        assert "left: False, []" in judge.evaluate(request).log
        judge.kill()
        with pytest.raises(InfraError):
            judge.evaluate(request)
        assert "left: True, []" in judge.evaluate(request).log, "the next process is told again"


def test_caches_are_shared_only_where_a_request_names_them() -> None:
    def owner(source: str, caches: str = "") -> tuple[str, str]:
        return cache_owner(EvaluationRequest(Task("t", "t", TaskKind.SOURCE, "", "t.py"), source, caches=caches))

    assert owner("a") != owner("b")
    assert owner("a", "baseline") == owner("b", "baseline") != owner("b", "other")
    assert owner("baseline") != owner("a", "baseline"), "no candidate can write itself into shared caches"
